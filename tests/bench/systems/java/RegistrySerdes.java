import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.InvalidProtocolBufferException;
import io.apicurio.registry.resolver.ParsedSchema;
import io.apicurio.registry.resolver.SchemaResolverConfig;
import io.apicurio.registry.serde.Legacy4ByteIdHandler;
import io.apicurio.registry.serde.SerdeConfig;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.config.IdOption;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import io.apicurio.registry.utils.protobuf.schema.ProtobufSchema;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;

/**
 * Apicurio's serdes with Confluent's ids: a zero byte and four bytes.
 *
 * <p>Schemas are those that the registry has already; nothing is registered from here.
 */
final class RegistrySerdes {
    private RegistrySerdes() {}

    @SuppressWarnings("unchecked")
    static Serializer<Object> serializer(String format, String url) {
        Serializer<?> made = switch (format) {
            case "AVRO" -> new AvroKafkaSerializer<>();
            case "JSON_SR" -> new JsonSchemaKafkaSerializer<>();
            case "PROTOBUF" -> new Messages();
            default -> throw new IllegalArgumentException(format);
        };
        made.configure(properties(url), false);
        return (Serializer<Object>) made;
    }

    @SuppressWarnings("unchecked")
    static Deserializer<Object> deserializer(String format, String url) {
        Deserializer<?> made = switch (format) {
            case "AVRO" -> new AvroKafkaDeserializer<>();
            case "JSON_SR" -> new JsonSchemaKafkaDeserializer<>();
            case "PROTOBUF" -> new MessageReader();
            default -> throw new IllegalArgumentException(format);
        };
        Map<String, Object> properties = properties(url);
        if (format.equals("JSON_SR")) {
            properties.put(SerdeConfig.DESERIALIZER_SPECIFIC_VALUE_RETURN_CLASS,
                com.fasterxml.jackson.databind.JsonNode.class);
        }
        made.configure(properties, false);
        return (Deserializer<Object>) made;
    }

    /** {@code url} is that of Confluent's API in the same registry. */
    static Map<String, Object> properties(String url) {
        Map<String, Object> made = new HashMap<>();
        made.put(SchemaResolverConfig.REGISTRY_URL, url.replaceFirst("/apis/.*", "/apis/registry/v2"));
        made.put(SchemaResolverConfig.FIND_LATEST_ARTIFACT, true);
        made.put(SerdeConfig.ENABLE_HEADERS, false);
        made.put(SerdeConfig.ID_HANDLER, Legacy4ByteIdHandler.class.getName());
        made.put(SerdeConfig.USE_ID, IdOption.contentId.name());
        made.put(SerdeConfig.VALIDATION_ENABLED, false);
        return made;
    }

    /** Apicurio names a message where Confluent has its place within the file. */
    private static final class Messages extends ProtobufKafkaSerializer<DynamicMessage> {
        @Override
        protected void serializeData(
                ParsedSchema<ProtobufSchema> schema, DynamicMessage data, OutputStream out)
                throws IOException {
            Descriptor kind = data.getDescriptorForType();
            if (kind.getContainingType() != null) {
                throw new IllegalArgumentException(kind.getFullName() + " is within another message");
            }
            if (kind.getIndex() == 0) {
                out.write(0);
            } else {
                out.write(2);
                out.write(2 * kind.getIndex());
            }
            data.writeTo(out);
        }
    }

    private static final class MessageReader extends ProtobufKafkaDeserializer<DynamicMessage> {
        @Override
        protected DynamicMessage readData(
                ParsedSchema<ProtobufSchema> schema, ByteBuffer buffer, int start, int length) {
            int at = start;
            int count = buffer.get(at++) / 2;
            List<Descriptor> among = schema.getParsedSchema().getFileDescriptor().getMessageTypes();
            Descriptor kind = among.get(0);
            for (int i = 0; i < count; i++) {
                kind = among.get(buffer.get(at++) / 2);
                among = kind.getNestedTypes();
            }
            byte[] data = new byte[start + length - at];
            buffer.get(at, data);
            try {
                return DynamicMessage.parseFrom(kind, data);
            } catch (InvalidProtocolBufferException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
