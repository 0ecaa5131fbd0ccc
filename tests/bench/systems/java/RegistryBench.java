import com.google.protobuf.CodedInputStream;
import io.apicurio.registry.resolver.ParsedSchema;
import io.apicurio.registry.resolver.SchemaParser;
import io.apicurio.registry.serde.AbstractKafkaDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufSchemaParser;
import io.apicurio.registry.utils.protobuf.schema.ProtobufSchema;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;

/**
 * Count and sum of sales by customer, as in TableBench, from Avro or Protobuf with a registry.
 *
 * <p>Arguments: brokers, application, input, sink, folder of the state, format, URL of the
 * registry.
 */
public final class RegistryBench {
    private RegistryBench() {}

    public static void main(String[] args) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        Deserializer<Long> amounts = args[5].equals("AVRO") ? avro(args[6]) : messages(args[6]);
        var serde = Serdes.serdeFrom(Serdes.Long().serializer(), amounts);
        TableBench.summed(
            builder.stream(args[2], Consumed.with(Serdes.String(), serde)), args[3], "customer");
        TableBench.started(builder, args[0], args[1], args[4]);
        new java.util.concurrent.CountDownLatch(1).await();
    }

    private static Deserializer<Long> avro(String url) {
        Deserializer<Object> read = RegistrySerdes.deserializer("AVRO", url);
        int[] place = {-1};
        return (topic, data) -> {
            GenericRecord sale = (GenericRecord) read.deserialize(topic, data);
            if (place[0] < 0) {
                place[0] = sale.getSchema().getField("amount").pos();
            }
            return (Long) sale.get(place[0]);
        };
    }

    private static Deserializer<Long> messages(String url) {
        Sales made = new Sales();
        made.configure(RegistrySerdes.properties(url), false);
        return made;
    }

    /** As fast as a generated class: it reads the fields that this one would hold. */
    private static final class Sales extends AbstractKafkaDeserializer<ProtobufSchema, Long> {
        @Override
        public void configure(java.util.Map<String, ?> properties, boolean key) {
            configure(new io.apicurio.registry.serde.config.BaseKafkaSerDeConfig(properties), key);
        }

        @Override
        public SchemaParser<ProtobufSchema, Long> schemaParser() {
            @SuppressWarnings({"unchecked", "rawtypes"})
            SchemaParser<ProtobufSchema, Long> made = (SchemaParser) new ProtobufSchemaParser<>();
            return made;
        }

        @Override
        protected Long readData(
                Headers headers, ParsedSchema<ProtobufSchema> schema, ByteBuffer data, int start,
                int length) {
            return readData(schema, data, start, length);
        }

        @Override
        protected Long readData(
                ParsedSchema<ProtobufSchema> schema, ByteBuffer data, int start, int length) {
            long amount = 0;
            try {
                // Behind the place of the first message, a single zero.
                CodedInputStream in =
                    CodedInputStream.newInstance(data.array(), start + 1, length - 1);
                for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
                    switch (tag >>> 3) {
                        case 1, 3 -> in.readStringRequireUtf8();
                        case 2 -> amount = in.readInt64();
                        default -> in.skipField(tag);
                    }
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            return amount;
        }
    }
}
