import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * COUNT and SUM(amount) per customer, per title, per customer and 5 minutes or per session, or the
 * pairs of a customer's sales, on Kafka Streams.
 *
 * Arguments: brokers, application id, input topic, sink topic, query, state folder.
 */
public final class TableBench {
    private static final Duration SIZE = Duration.ofMinutes(5);
    private static final Duration GRACE = Duration.ofHours(24);

    public static final class Sale {
        public String customer;
        public long amount;
        public String title;
        public long ts;
    }

    private record Total(long n, long sum) {}

    public static void main(String[] args) throws InterruptedException {
        KafkaStreams streams = new KafkaStreams(topology(args[2], args[3], args[4]).build(),
            properties(args[0], args[1], args[5]));
        streams.setGlobalStateRestoreListener(new RestoreTimes());
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> tell("state", now.name(), 0));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    private static Properties properties(String brokers, String application, String folder) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        return properties;
    }

    private static StreamsBuilder topology(String input, String sink, String query) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Sale> sales =
            builder.stream(input, Consumed.with(Serdes.String(), saleSerde()));
        boolean byTitle = query.equals("title");
        // Only what the aggregate needs goes on, into the repartition topic, too.
        KStream<String, Long> amounts = byTitle
            ? sales.map((key, sale) -> new org.apache.kafka.streams.KeyValue<>(sale.title, sale.amount))
            : sales.mapValues(sale -> sale.amount);
        KGroupedStream<String, Long> grouped =
            amounts.groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));
        Initializer<Total> none = () -> new Total(0, 0);
        Aggregator<String, Long, Total> add = (key, amount, t) -> new Total(t.n + 1, t.sum + amount);
        if (query.equals("join")) {
            amounts.join(amounts, Total::new, JoinWindows.ofTimeDifferenceAndGrace(SIZE, GRACE),
                    StreamJoined.with(Serdes.String(), Serdes.Long(), Serdes.Long()))
                .to(sink, Produced.with(Serdes.String(), jsonSerde()));
        } else if (query.equals("session")) {
            grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(SIZE, GRACE))
                .aggregate(none, add, (key, a, b) -> new Total(a.n + b.n, a.sum + b.sum),
                    Materialized.with(Serdes.String(), totalSerde()))
                .toStream()
                .to(sink, Produced.with(
                    WindowedSerdes.sessionWindowedSerdeFrom(String.class), jsonSerde()));
        } else if (query.equals("window")) {
            grouped.windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE))
                .aggregate(none, add, Materialized.with(Serdes.String(), totalSerde()))
                .toStream()
                .to(sink, Produced.with(
                    WindowedSerdes.timeWindowedSerdeFrom(String.class, SIZE.toMillis()), jsonSerde()));
        } else {
            grouped.aggregate(none, add, Materialized.with(Serdes.String(), totalSerde()))
                .toStream()
                .to(sink, Produced.with(Serdes.String(), jsonSerde()));
        }
        return builder;
    }

    private static Serde<Sale> saleSerde() {
        ObjectReader reader = new ObjectMapper().readerFor(Sale.class);
        Deserializer<Sale> read = (topic, data) -> {
            try {
                return data == null ? null : reader.readValue(data);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        };
        return Serdes.serdeFrom(refuse(), read);
    }

    private static Serde<Total> totalSerde() {
        Serializer<Total> write = (topic, t) ->
            t == null ? null : ByteBuffer.allocate(16).putLong(t.n).putLong(t.sum).array();
        Deserializer<Total> read = (topic, data) -> {
            if (data == null) {
                return null;
            }
            ByteBuffer buffer = ByteBuffer.wrap(data);
            return new Total(buffer.getLong(), buffer.getLong());
        };
        return Serdes.serdeFrom(write, read);
    }

    private static Serde<Total> jsonSerde() {
        Serializer<Total> write = (topic, t) -> t == null ? null
            : ("{\"N\":" + t.n + ",\"TOTAL\":" + t.sum + "}").getBytes(StandardCharsets.UTF_8);
        Deserializer<Total> read = (topic, data) -> {
            throw new UnsupportedOperationException("only written");
        };
        return Serdes.serdeFrom(write, read);
    }

    private static <T> Serializer<T> refuse() {
        return (topic, value) -> {
            throw new UnsupportedOperationException("only read");
        };
    }

    /** One line of JSON on standard output; `ms` of the wall clock. */
    private static synchronized void tell(String event, String what, long records) {
        System.out.printf("{\"event\":\"%s\",\"what\":\"%s\",\"records\":%d,\"ms\":%d}%n",
            event, what, records, System.currentTimeMillis());
        System.out.flush();
    }

    private static final class RestoreTimes implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition place, String store, long from, long to) {
            tell("restore-start", place.toString(), to - from);
        }

        @Override
        public void onBatchRestored(TopicPartition place, String store, long to, long records) {}

        @Override
        public void onRestoreEnd(TopicPartition place, String store, long records) {
            tell("restore-end", place.toString(), records);
        }
    }
}
