import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramIterationValue;

/**
 * Reads stored runs from the standard input without any code of lockbench: the
 * member "hist" of each line is taken out of the JSON, and each histogram in it
 * decoded by the HdrHistogram library. It prints, separated by spaces,
 *
 *   NAME count TOTAL p50 V p90 V p99 V p99.9 V min V max V
 *   NAME bucket LARGEST-VALUE COUNT      (one for each bucket that is not empty)
 *
 * The JDK has no JSON parser; base64 holds no character that JSON escapes, so
 * two expressions do here.
 */
public final class ReadRun {
    private static final Pattern HIST = Pattern.compile("\"hist\":\\{([^}]*)\\}");
    private static final Pattern ENTRY = Pattern.compile("\"([^\"]+)\":\"([^\"]+)\"");

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Matcher hist = HIST.matcher(line);
            if (!hist.find()) {
                throw new IllegalArgumentException("a line without histograms");
            }
            for (Matcher entry = ENTRY.matcher(hist.group(1)); entry.find(); ) {
                print(entry.group(1), Base64.getDecoder().decode(entry.group(2)));
            }
        }
    }

    private static void print(String name, byte[] encoded) throws Exception {
        Histogram h = Histogram.decodeFromCompressedByteBuffer(ByteBuffer.wrap(encoded), 0);
        System.out.println(name + " count " + h.getTotalCount()
                + " p50 " + h.getValueAtPercentile(50)
                + " p90 " + h.getValueAtPercentile(90)
                + " p99 " + h.getValueAtPercentile(99)
                + " p99.9 " + h.getValueAtPercentile(99.9)
                + " min " + h.getMinValue()
                + " max " + h.getMaxValue());
        for (HistogramIterationValue v : h.recordedValues()) {
            System.out.println(name + " bucket " + v.getValueIteratedTo() + " " + v.getCountAtValueIteratedTo());
        }
    }
}
