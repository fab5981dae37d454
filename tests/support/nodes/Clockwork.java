import java.io.BufferedReader;
import java.io.InputStreamReader;

/** A JVM whose clocks are moved: two threads read them without end, and each line on its input is answered by both. */
class Clockwork {
    static volatile long seen;

    public static void main(String[] arguments) throws Exception {
        for (int thread = 0; thread < 2; thread++) {
            Thread reader = new Thread(() -> {
                while (true) {
                    seen = System.nanoTime() + System.currentTimeMillis();
                }
            });
            reader.setDaemon(true);
            reader.start();
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        while (lines.readLine() != null) {
            System.out.println(System.currentTimeMillis() / 1e3 + " " + System.nanoTime() / 1e9);
        }
    }
}
