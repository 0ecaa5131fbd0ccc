import java.nio.charset.StandardCharsets;
import java.nio.file.*;

/**
 * Golden values for tests, on Java 17: each line of the file given is the 64 bits of a double in
 * hexadecimal; each line printed is that, a tab, and `Double.toString`.
 */
public class JavaDoubles {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]), StandardCharsets.UTF_8)) {
            double value = Double.longBitsToDouble(Long.parseUnsignedLong(line, 16));
            System.out.println(line + "\t" + Double.toString(value));
        }
    }
}
