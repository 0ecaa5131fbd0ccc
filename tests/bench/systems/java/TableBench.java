import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
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
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * COUNT and SUM(amount) per customer, per title, per expression of the title, per customer and
 * 5 minutes or per session; computed columns or distinct customers per title; or orders with
 * their payments; on Kafka Streams.
 *
 * Arguments: brokers, application id, input topics (orders,payments or one), sink topic, query,
 * state folder, and the port of 127.0.0.1 at which GET /key answers from the store, if any.
 */
public final class TableBench {
    private static final Duration SIZE = Duration.ofMinutes(5);
    private static final Duration WITHIN = Duration.ofMinutes(10);
    private static final Duration GRACE = Duration.ofHours(24);

    public static final class Sale {
        public String customer;
        public long amount;
        public String title;
        public long ts;
    }

    private static final String STORE = "totals";
    private static final int HTTP_THREADS = 8;

    private record Total(long n, long sum) {}

    private record Seen(long n, Set<String> customers) {}

    public static final class Order {
        public String customer;
        public long amount;
    }

    public static final class Payment {
        public long paid;
        public String method;
    }

    /** The computed columns of one sale. */
    private record Line(long taxed, long points, long letters) {}

    private record Bill(long n, long taxed, long points, long letters) {}

    private record Settled(Order order, long paid) {}

    public static void main(String[] args) throws InterruptedException, IOException {
        StreamsBuilder builder = switch (args[4]) {
            case "join" -> joined(args[2].split(","), args[3]);
            case "computed" -> computed(args[2], args[3]);
            case "distinct" -> distinct(args[2], args[3]);
            default -> topology(args[2], args[3], args[4]);
        };
        KafkaStreams streams = started(builder, args[0], args[1], args[5]);
        if (args.length > 6) {
            serve(streams, Integer.parseInt(args[6]));
        }
        new CountDownLatch(1).await();
    }

    /** Runs until the process is told to end. */
    static KafkaStreams started(
            StreamsBuilder builder, String brokers, String application, String folder) {
        KafkaStreams streams =
            new KafkaStreams(builder.build(), properties(brokers, application, folder));
        streams.setGlobalStateRestoreListener(new RestoreTimes());
        streams.setStateListener((now, before) -> tell("state", now.name(), 0));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
        }));
        streams.start();
        return streams;
    }

    /** Interactive queries behind the JDK's own HTTP server. */
    private static void serve(KafkaStreams streams, int port) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 256);
        server.setExecutor(Executors.newFixedThreadPool(HTTP_THREADS));
        server.createContext("/", exchange -> {
            String key = exchange.getRequestURI().getPath().substring(1);
            int status = 200;
            String text;
            try {
                ReadOnlyKeyValueStore<String, Total> store = streams.store(
                    StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.keyValueStore()));
                Total t = store.get(key);
                text = t == null ? "{}" : "{\"CUSTOMER\":\"" + key + "\",\"N\":" + t.n
                    + ",\"TOTAL\":" + t.sum + "}";
            } catch (RuntimeException error) {
                status = 503;
                text = "{}";
            }
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(status, body.length);
            try (var out = exchange.getResponseBody()) {
                out.write(body);
            }
        });
        server.start();
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

    private static StreamsBuilder joined(String[] inputs, String sink) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Order> orders = builder.stream(
            inputs[0], Consumed.with(Serdes.String(), readOnly(Order.class)));
        KStream<String, Long> paid = builder
            .stream(inputs[1], Consumed.with(Serdes.String(), readOnly(Payment.class)))
            .mapValues(payment -> payment.paid);
        orders.join(paid, Settled::new, JoinWindows.ofTimeDifferenceAndGrace(WITHIN, GRACE),
                StreamJoined.with(Serdes.String(), orderSerde(), Serdes.Long()))
            .to(sink, Produced.with(Serdes.String(), settledSerde()));
        return builder;
    }

    /** The WHERE and the columns are computed before the repartition topic, which holds numbers. */
    private static StreamsBuilder computed(String input, String sink) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), readOnly(Sale.class)))
            .filter((key, sale) -> taxed(sale) >= 20
                && sale.customer.toUpperCase(Locale.ROOT).compareTo("C00900000") < 0)
            .map((key, sale) -> new KeyValue<>(sale.title,
                new Line(taxed(sale), points(sale), sale.customer.replace("0", "").length())))
            .groupByKey(Grouped.with(Serdes.String(), lineSerde()))
            .aggregate(() -> new Bill(0, 0, 0, 0),
                (key, line, bill) -> new Bill(bill.n + 1, bill.taxed + line.taxed,
                    bill.points + line.points, bill.letters + line.letters),
                Materialized.with(Serdes.String(), billSerde()))
            .toStream()
            .to(sink, Produced.with(Serdes.String(), billJsonSerde()));
        return builder;
    }

    /** A set of customers per title: Kafka Streams has no other state for it within an aggregate. */
    private static StreamsBuilder distinct(String input, String sink) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), readOnly(Sale.class)))
            .map((key, sale) -> new KeyValue<>(sale.title, sale.customer))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .aggregate(() -> new Seen(0, new HashSet<>()),
                (key, customer, seen) -> {
                    seen.customers.add(customer);
                    return new Seen(seen.n + 1, seen.customers);
                },
                Materialized.with(Serdes.String(), seenSerde()))
            .toStream()
            .mapValues(seen -> new Total(seen.n, seen.customers.size()))
            .to(sink, Produced.with(Serdes.String(), jsonSerde()));
        return builder;
    }

    private static Serde<Seen> seenSerde() {
        Serializer<Seen> write = (topic, seen) -> {
            if (seen == null) {
                return null;
            }
            byte[] customers = String.join("\n", seen.customers).getBytes(StandardCharsets.UTF_8);
            return ByteBuffer.allocate(8 + customers.length).putLong(seen.n).put(customers).array();
        };
        Deserializer<Seen> read = (topic, data) -> {
            if (data == null) {
                return null;
            }
            String customers = new String(data, 8, data.length - 8, StandardCharsets.UTF_8);
            return new Seen(ByteBuffer.wrap(data).getLong(),
                new HashSet<>(Arrays.asList(customers.split("\n"))));
        };
        return Serdes.serdeFrom(write, read);
    }

    private static long taxed(Sale sale) {
        return sale.amount * 119 / 100;
    }

    private static long points(Sale sale) {
        return sale.amount >= 50 ? 10 : sale.amount >= 20 ? 2 : 0;
    }

    /** The first ten characters of the title, in upper case. */
    private static String shelf(Sale sale) {
        String title = sale.title;
        return title.substring(0, Math.min(10, title.length())).toUpperCase(Locale.ROOT);
    }

    private static StreamsBuilder topology(String input, String sink, String query) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Sale> sales =
            builder.stream(input, Consumed.with(Serdes.String(), readOnly(Sale.class)));
        // Only what the aggregate needs goes on, into the repartition topic, too.
        KStream<String, Long> amounts = switch (query) {
            case "title" -> sales.map((key, sale) -> new KeyValue<>(sale.title, sale.amount));
            case "expression" -> sales.map((key, sale) -> new KeyValue<>(shelf(sale), sale.amount));
            default -> sales.mapValues(sale -> sale.amount);
        };
        summed(amounts, sink, query);
        return builder;
    }

    /** Count and sum of the amounts by key. */
    static void summed(KStream<String, Long> amounts, String sink, String query) {
        KGroupedStream<String, Long> grouped =
            amounts.groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));
        Initializer<Total> none = () -> new Total(0, 0);
        Aggregator<String, Long, Total> add = (key, amount, t) -> new Total(t.n + 1, t.sum + amount);
        if (query.equals("session")) {
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
            grouped.aggregate(none, add,
                    Materialized.<String, Total, KeyValueStore<Bytes, byte[]>>as(STORE)
                        .withKeySerde(Serdes.String()).withValueSerde(totalSerde()))
                .toStream()
                .to(sink, Produced.with(Serdes.String(), jsonSerde()));
        }
    }

    private static <T> Serde<T> readOnly(Class<T> kind) {
        ObjectReader reader = new ObjectMapper().readerFor(kind);
        Deserializer<T> read = (topic, data) -> {
            try {
                return data == null ? null : reader.readValue(data);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        };
        return Serdes.serdeFrom(refuse(), read);
    }

    /** As it is kept: no names, no text but the customer's. */
    private static Serde<Order> orderSerde() {
        Serializer<Order> write = (topic, order) -> {
            if (order == null) {
                return null;
            }
            byte[] customer = order.customer.getBytes(StandardCharsets.UTF_8);
            return ByteBuffer.allocate(8 + customer.length).putLong(order.amount).put(customer).array();
        };
        Deserializer<Order> read = (topic, data) -> {
            if (data == null) {
                return null;
            }
            Order order = new Order();
            order.amount = ByteBuffer.wrap(data).getLong();
            order.customer = new String(data, 8, data.length - 8, StandardCharsets.UTF_8);
            return order;
        };
        return Serdes.serdeFrom(write, read);
    }

    private static Serde<Settled> settledSerde() {
        Serializer<Settled> write = (topic, s) -> s == null ? null
            : ("{\"CUSTOMER\":\"" + s.order.customer + "\",\"AMOUNT\":" + s.order.amount
                + ",\"PAID\":" + s.paid + "}").getBytes(StandardCharsets.UTF_8);
        Deserializer<Settled> read = (topic, data) -> {
            throw new UnsupportedOperationException("only written");
        };
        return Serdes.serdeFrom(write, read);
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

    private static Serde<Line> lineSerde() {
        Serializer<Line> write = (topic, line) -> line == null ? null
            : ByteBuffer.allocate(24).putLong(line.taxed).putLong(line.points)
                .putLong(line.letters).array();
        Deserializer<Line> read = (topic, data) -> {
            if (data == null) {
                return null;
            }
            ByteBuffer buffer = ByteBuffer.wrap(data);
            return new Line(buffer.getLong(), buffer.getLong(), buffer.getLong());
        };
        return Serdes.serdeFrom(write, read);
    }

    private static Serde<Bill> billSerde() {
        Serializer<Bill> write = (topic, bill) -> bill == null ? null
            : ByteBuffer.allocate(32).putLong(bill.n).putLong(bill.taxed).putLong(bill.points)
                .putLong(bill.letters).array();
        Deserializer<Bill> read = (topic, data) -> {
            if (data == null) {
                return null;
            }
            ByteBuffer buffer = ByteBuffer.wrap(data);
            return new Bill(
                buffer.getLong(), buffer.getLong(), buffer.getLong(), buffer.getLong());
        };
        return Serdes.serdeFrom(write, read);
    }

    private static Serde<Bill> billJsonSerde() {
        Serializer<Bill> write = (topic, bill) -> bill == null ? null
            : ("{\"N\":" + bill.n + ",\"TOTAL\":" + bill.taxed + ",\"POINTS\":" + bill.points
                + ",\"LETTERS\":" + bill.letters + "}").getBytes(StandardCharsets.UTF_8);
        Deserializer<Bill> read = (topic, data) -> {
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
