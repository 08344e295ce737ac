// Asks Kafka Connect's own transforms and predicates what they do: reads cases,
// one a line, and prints them with `expected` filled in. In this folder:
//
//   java -cp "$HOME/.cache/sluice/kafka-4.4.0/libs/*" Oracle.java < cases.jsonl > new.jsonl

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

public class Oracle {
    static final String PACKAGE = "org.apache.kafka.connect.transforms.";
    static final ObjectMapper JSON = new ObjectMapper();
    static final JsonConverter CONVERTER = new JsonConverter();

    public static void main(String[] arguments) throws Exception {
        CONVERTER.configure(Map.of("schemas.enable", "true", "replace.null.with.default", "false"), false);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode test = (ObjectNode) JSON.readTree(line);
            test.set("expected", answer(test));
            System.out.println(JSON.writeValueAsString(test));
        }
    }

    static JsonNode answer(JsonNode test) throws Exception {
        SinkRecord record = record(test);
        Map<String, String> settings = new HashMap<>();
        test.path("settings").fields().forEachRemaining(it -> settings.put(it.getKey(), it.getValue().asText()));
        Object plugin;
        try {
            plugin = Class.forName(PACKAGE + test.get("class").asText()).getDeclaredConstructor().newInstance();
            ((org.apache.kafka.common.Configurable) plugin).configure(settings);
        } catch (org.apache.kafka.common.config.ConfigException error) {
            return JSON.valueToTree("refused");
        }
        try {
            return plugin instanceof Predicate ? test((Predicate<SinkRecord>) plugin, record)
                : apply((Transformation<SinkRecord>) plugin, record);
        } catch (RuntimeException error) {
            return JSON.valueToTree("rejected");
        }
    }

    static JsonNode test(Predicate<SinkRecord> predicate, SinkRecord record) {
        return JSON.valueToTree(predicate.test(record));
    }

    static JsonNode apply(Transformation<SinkRecord> transform, SinkRecord record) throws Exception {
        SinkRecord changed = transform.apply(record);
        if (changed == null) {
            return JSON.valueToTree("dropped");
        }
        ObjectNode seen = JSON.createObjectNode();
        seen.put("topic", changed.topic());
        seen.set("key", envelope(CONVERTER.fromConnectData("t", changed.keySchema(), changed.key())));
        seen.set("value", envelope(CONVERTER.fromConnectData("t", changed.valueSchema(), changed.value())));
        return seen;
    }

    static JsonNode envelope(byte[] bytes) throws Exception {
        return bytes == null ? JSON.nullNode() : JSON.readTree(bytes);
    }

    static SinkRecord record(JsonNode test) throws Exception {
        SchemaAndValue key = datum(test.path("key"));
        SchemaAndValue value = datum(test.path("value"));
        ConnectHeaders headers = new ConnectHeaders();
        test.path("headers").forEach(it -> headers.addString(it.asText(), "x"));
        Long timestamp = test.has("timestamp") ? null : Long.valueOf(1_700_000_000_000L);
        return new SinkRecord(test.path("topic").asText("orders"), 3, key.schema(), key.value(),
            value.schema(), value.value(), 42, timestamp, TimestampType.CREATE_TIME, headers);
    }

    static SchemaAndValue datum(JsonNode envelope) throws Exception {
        boolean isNull = envelope.isNull() || envelope.isMissingNode();
        return CONVERTER.toConnectData("t", isNull ? null : JSON.writeValueAsBytes(envelope));
    }
}
