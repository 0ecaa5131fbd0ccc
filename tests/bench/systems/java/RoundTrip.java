import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.util.JsonFormat;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.JsonEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Values of a topic's first partition, in Java's own serdes: lines of JSON on standard input are
 * written, or as many as asked for are read and printed as lines of JSON.
 *
 * <p>JSON is what the format's own library makes of a value: Avro's JSON encoding, Protobuf's
 * mapping.  Arguments: brokers, URL of the registry, format, topic, "write" or a number.  Avro and
 * Protobuf are written with the subject's newest schema.
 */
public final class RoundTrip {
    private static final ObjectMapper JSON = new ObjectMapper();

    private RoundTrip() {}

    public static void main(String[] args) throws Exception {
        if (args[4].equals("write")) {
            write(args[0], args[1], args[2], args[3]);
        } else {
            read(args[0], args[1], args[2], args[3], Integer.parseInt(args[4]));
        }
    }

    private static void write(String brokers, String url, String format, String topic)
            throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> properties = Map.of("bootstrap.servers", brokers);
        try (var serializer = RegistrySerdes.serializer(format, url);
                var producer = new KafkaProducer<>(
                    properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                byte[] data = serializer.serialize(topic, value(format, url, topic, line));
                producer.send(new ProducerRecord<>(topic, 0, null, data)).get();
            }
        }
    }

    private static Object value(String format, String url, String topic, String line)
            throws Exception {
        if (format.equals("JSON_SR")) {
            return JSON.readTree(line);
        }
        String text = JSON.readTree(get(url + "/subjects/" + topic + "-value/versions/latest"))
            .get("schema").asText();
        if (format.equals("AVRO")) {
            Schema schema = new Schema.Parser().parse(text);
            return new GenericDatumReader<GenericRecord>(schema)
                .read(null, DecoderFactory.get().jsonDecoder(schema, line));
        }
        return message(topic, line, url);
    }

    /** By the schema as the deserializer has it: it resolves what the schema imports. */
    private static DynamicMessage message(String topic, String line, String url) throws Exception {
        byte[] none = emptyMessage(topic, url);
        try (var deserializer = RegistrySerdes.deserializer("PROTOBUF", url)) {
            var made = ((DynamicMessage) deserializer.deserialize(topic, none)).newBuilderForType();
            JsonFormat.parser().merge(line, made);
            return made.build();
        }
    }

    private static byte[] emptyMessage(String topic, String url) throws Exception {
        int id = JSON.readTree(get(url + "/subjects/" + topic + "-value/versions/latest"))
            .get("id").asInt();
        return java.nio.ByteBuffer.allocate(6).put((byte) 0).putInt(id).put((byte) 0).array();
    }

    private static String get(String url) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(30)).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IOException(url + " answers " + answer.statusCode() + ": " + answer.body());
        }
        return answer.body();
    }

    private static void read(String brokers, String url, String format, String topic, int count)
            throws IOException {
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Map<String, Object> properties = Map.of("bootstrap.servers", brokers);
        try (var deserializer = RegistrySerdes.deserializer(format, url);
                var consumer = new KafkaConsumer<>(
                    properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> place = List.of(new TopicPartition(topic, 0));
            consumer.assign(place);
            consumer.seekToBeginning(place);
            List<String> found = new ArrayList<>();
            while (found.size() < count) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    found.add(text(format, deserializer.deserialize(topic, record.value())));
                }
            }
            found.forEach(out::println);
        }
    }

    private static String text(String format, Object value) throws IOException {
        return switch (format) {
            case "AVRO" -> avroText((GenericRecord) value);
            case "PROTOBUF" -> JsonFormat.printer().omittingInsignificantWhitespace()
                .preservingProtoFieldNames().print((DynamicMessage) value);
            default -> JSON.writeValueAsString(value);
        };
    }

    private static String avroText(GenericRecord value) throws IOException {
        var made = new ByteArrayOutputStream();
        JsonEncoder encoder = EncoderFactory.get().jsonEncoder(value.getSchema(), made, false);
        new GenericDatumWriter<GenericRecord>(value.getSchema()).write(value, encoder);
        encoder.flush();
        return made.toString(StandardCharsets.UTF_8);
    }
}
