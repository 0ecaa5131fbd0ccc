import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;

/**
 * Golden values for tests: each line of the file given is "pattern TAB text", both URL-encoded; each
 * line printed is the same with "TAB finds": all that find() finds, parted by blanks, each the
 * start and end, in code points, of the whole and of each group: "0,2;1,2;-1,-1". "refused": the
 * pattern is none.
 */
public class JavaRegex {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]), StandardCharsets.UTF_8)) {
            String[] parts = line.split("\t", 2);
            System.out.println(line + "\t" + finds(decoded(parts[0]), decoded(parts[1])));
        }
    }

    private static String decoded(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    private static String finds(String pattern, String text) {
        try {
            Matcher matcher = Pattern.compile(pattern).matcher(text);
            List<String> found = new ArrayList<>();
            while (matcher.find()) {
                List<String> spans = new ArrayList<>();
                for (int group = 0; group <= matcher.groupCount(); group++) {
                    spans.add(at(text, matcher.start(group)) + "," + at(text, matcher.end(group)));
                }
                found.add(String.join(";", spans));
            }
            return String.join(" ", found);
        } catch (PatternSyntaxException error) {
            return "refused";
        }
    }

    private static int at(String text, int index) {
        return index < 0 ? -1 : text.codePointCount(0, index);
    }
}
