import java.io.BufferedReader;
import java.io.InputStreamReader;

/** Two threads read the clocks without pause. Each input line is answered with both clocks, in seconds. */
class ClockReader {
    static volatile long latest;

    public static void main(String[] arguments) throws Exception {
        for (int thread = 0; thread < 2; thread++) {
            Thread reader = new Thread(() -> {
                while (true) {
                    latest = System.nanoTime() + System.currentTimeMillis();
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
