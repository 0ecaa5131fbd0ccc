import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.*;
import java.time.format.*;
import java.time.temporal.*;
import java.util.*;

/**
 * Golden values for tests: each line of the file given is "pattern TAB text"; each line printed is
 * "pattern TAB text TAB milliseconds since the epoch", or "refused" in place of the number.
 *
 * The rule is ksqlDB's: the text is parsed as DateTimeFormatter resolves it, case ignored, and what
 * it says is set, field by field, on 1970-01-01T00:00 in the zone it names, or in UTC.
 */
public class JavaTimes {
    public static void main(String[] args) throws Exception {
        Locale.setDefault(Locale.ENGLISH);
        for (String line : Files.readAllLines(Path.of(args[0]), StandardCharsets.UTF_8)) {
            String[] parts = line.split("\t", 2);
            System.out.println(line + "\t" + millis(parts[0], parts[1]));
        }
    }

    private static String millis(String pattern, String text) {
        try {
            TemporalAccessor parsed = new DateTimeFormatterBuilder().parseCaseInsensitive()
                .appendPattern(pattern).toFormatter().parse(text);
            ZoneId zone = parsed.query(TemporalQueries.zone());
            ZonedDateTime found = ZonedDateTime.of(
                1970, 1, 1, 0, 0, 0, 0, zone == null ? ZoneId.of("UTC") : zone);
            for (ChronoField field : ChronoField.values()) {
                if (!parsed.isSupported(field)) continue;
                long value = parsed.getLong(field);
                if (field == ChronoField.DAY_OF_YEAR && value == 366) {
                    found = found.with(ChronoField.YEAR, parsed.getLong(ChronoField.YEAR));
                }
                found = found.with(field, value);
            }
            return Long.toString(found.toInstant().toEpochMilli());
        } catch (DateTimeException | IllegalArgumentException error) {
            return "refused";
        }
    }
}
