import java.util.TreeMap;
import java.util.stream.Collectors;
import org.sourcelab.kafka.connect.apiclient.Configuration;
import org.sourcelab.kafka.connect.apiclient.KafkaConnectClient;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorPlugin;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorPluginConfigDefinition;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorStatus.TaskStatus;
import org.sourcelab.kafka.connect.apiclient.request.post.PostConnectorRestart;

/** Asks a worker by a client that was written for Kafka Connect, and prints what it made of the answers. */
class Ask {
    public static void main(String[] arguments) {
        var client = new KafkaConnectClient(new Configuration(arguments[0]));
        var name = arguments[1];
        say("version", client.getConnectServerVersion().getVersion());
        say("connectors", client.getConnectors());
        var all = client.getConnectorsWithAllExpandedMetadata();
        say("expanded.state", all.getStatusForConnector(name).getConnector().get("state"));
        say("expanded.type", all.getDefinitionForConnector(name).getType());
        var status = client.getConnectorStatus(name);
        say("state", status.getConnector().get("state"));
        say("tasks", status.getTasks().stream().map(TaskStatus::getState).toList());
        say("worker", status.getTasks().get(0).getWorkerId());
        say("task", client.getConnectorTaskStatus(name, 1).getState());
        say("task.configs", client.getConnectorTasks(name).size());
        say("class", client.getConnectorConfig(name).get("connector.class"));
        say("topics", client.getConnectorTopics(name).getTopics());
        say("plugins", client.getConnectorPlugins().stream().map(ConnectorPlugin::getClassName).sorted().toList());
        validate(client, name);
        say("restart.task", client.restartConnectorTask(name, 1));
        var restart = new PostConnectorRestart(name).withIncludeTasks(true).withOnlyFailed(true);
        say("restart", client.restartConnector(restart));
        refused("unknown", () -> client.getConnectorStatus("none"));
        refused("pause", () -> client.pauseConnector(name));
        refused("delete", () -> client.deleteConnector(name));
    }

    private static void validate(KafkaConnectClient client, String name) {
        var config = new TreeMap<>(client.getConnectorConfig(name));
        config.put("tasks.max", "many");
        var results = client.validateConnectorPluginConfig(
            new ConnectorPluginConfigDefinition(config.get("connector.class"), config));
        say("validated", results.getErrorCount());
        say("faults", results.getConfigs().stream()
            .map(one -> one.getValue())
            .filter(value -> !value.getErrors().isEmpty())
            .collect(Collectors.toMap(value -> value.getName(), value -> value.getErrors())));
    }

    private static void refused(String what, Runnable request) {
        try {
            request.run();
            say(what, "was not refused");
        } catch (RuntimeException refusal) {
            say(what, refusal.getClass().getSimpleName() + " " + refusal.getMessage());
        }
    }

    private static void say(String what, Object answer) {
        System.out.println(what + "=" + answer);
    }
}
