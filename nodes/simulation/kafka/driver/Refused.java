// Kafka refuses the value of a property.
package splitbrain.simulation;

public final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1;

    public Refused(String message) {
        super(message);
    }
}
