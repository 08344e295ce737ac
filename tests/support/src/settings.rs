//! How a test cluster is set up.

use crate::{node::Ports, tls::Certificates};

/// Coordinators with few partitions, and groups that notice a lost member
/// soon. Locks of one second are allowed, not the default: a test that wants
/// them sets `share.record.lock.duration.ms` on its group.
const QUICK: &[(&str, &str)] = &[
    ("group.share.min.record.lock.duration.ms", "1000"),
    ("group.share.min.session.timeout.ms", "1000"),
    ("group.share.session.timeout.ms", "6000"),
    ("group.share.min.heartbeat.interval.ms", "200"),
    ("group.share.heartbeat.interval.ms", "500"),
    ("group.share.assignment.interval.ms", "0"),
    ("group.consumer.min.session.timeout.ms", "1000"),
    ("group.consumer.session.timeout.ms", "6000"),
    ("group.consumer.min.heartbeat.interval.ms", "200"),
    ("group.consumer.heartbeat.interval.ms", "500"),
    ("group.consumer.assignment.interval.ms", "0"),
    ("group.min.session.timeout.ms", "1000"),
    ("broker.heartbeat.interval.ms", "500"),
    ("broker.session.timeout.ms", "3000"),
];

/// The mechanisms that each user of the `SASL_SSL` listener may take.
pub(crate) const SCRAM: [&str; 2] = ["SCRAM-SHA-256", "SCRAM-SHA-512"];

/// What every test cluster has.
const COMMON: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("controller.listener.names", "CONTROLLER"),
    ("inter.broker.listener.name", "PLAINTEXT"),
    (
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    ),
    ("auto.create.topics.enable", "false"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("offsets.topic.num.partitions", "2"),
    ("transaction.state.log.num.partitions", "2"),
    ("share.coordinator.state.topic.num.partitions", "2"),
    // The default is a quarter of the heap that tests give a broker.
    ("log.cleaner.dedupe.buffer.size", "16777216"),
    // Records bear times of long ago; half a minute after its start a broker
    // would delete those that are older than a week.
    ("log.retention.ms", "-1"),
];

const REPLICATED_TOPICS: &[&str] = &[
    "offsets.topic",
    "transaction.state.log",
    "share.coordinator.state.topic",
];

/// What a test asks of its cluster.
#[derive(Clone)]
pub struct KafkaOptions {
    pub(crate) nodes: usize,
    pub(crate) heap_mb: u32,
    pub(crate) quick: bool,
    pub(crate) users: Vec<(String, String)>,
    pub(crate) plain_users: Vec<(String, String)>,
    pub(crate) client_certificates: bool,
    pub(crate) features: Vec<String>,
    pub(crate) proxied: bool,
    pub(crate) one_controller: bool,
    pub(crate) properties: Vec<(String, String)>,
}

impl Default for KafkaOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl KafkaOptions {
    /// One node, 512 MB of heap, quick heartbeats.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            nodes: 1,
            heap_mb: 512,
            quick: true,
            users: Vec::new(),
            plain_users: Vec::new(),
            client_certificates: false,
            features: Vec::new(),
            proxied: false,
            one_controller: false,
            properties: Vec::new(),
        }
    }

    /// So many nodes; internal topics get up to three replicas.
    #[must_use]
    pub const fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    #[must_use]
    pub const fn heap_mb(mut self, heap_mb: u32) -> Self {
        self.heap_mb = heap_mb;
        self
    }

    /// Kafka's own time-outs and intervals, as operators meet them.
    #[must_use]
    pub const fn default_timeouts(mut self) -> Self {
        self.quick = false;
        self
    }

    /// Opens the `SASL_SSL` listener and adds a user for SCRAM.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.users.push((name.to_owned(), password.to_owned()));
        self
    }

    /// Opens the `SASL_PLAINTEXT` listener and adds a user for PLAIN; it takes
    /// unsecured tokens (OAUTHBEARER), too.
    #[must_use]
    pub fn plain_user(mut self, name: &str, password: &str) -> Self {
        self.plain_users
            .push((name.to_owned(), password.to_owned()));
        self
    }

    /// Opens the `SSL` listener, which asks for a client's certificate.
    #[must_use]
    pub const fn client_certificates(mut self) -> Self {
        self.client_certificates = true;
        self
    }

    /// Formats the cluster with a feature at another level than its newest,
    /// such as `share.version=1`.
    #[must_use]
    pub fn feature(mut self, name_and_level: &str) -> Self {
        self.features.push(name_and_level.to_owned());
        self
    }

    /// Opens the `PROXIED` listener, which names the nodes' proxies: start
    /// them with `Kafka::proxies`.
    #[must_use]
    pub const fn proxied(mut self) -> Self {
        self.proxied = true;
        self
    }

    /// Makes node 1 the only controller, so that all others may be killed.
    #[must_use]
    pub const fn one_controller(mut self) -> Self {
        self.one_controller = true;
        self
    }

    /// Whether node `id` takes part in the quorum.
    const fn is_controller(&self, id: usize) -> bool {
        id == 1 || !self.one_controller
    }

    /// One more broker property; it wins over those set here.
    #[must_use]
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn jvm_options(&self) -> Vec<String> {
        vec![format!("-Xmx{}m", self.heap_mb)]
    }
}

/// The server properties of node `id` (1, 2, ...), the later ones win.
pub(crate) fn node_properties(
    id: usize,
    ports: &[Ports],
    options: &KafkaOptions,
    certificates: &Certificates,
) -> Vec<(String, String)> {
    let mut properties = owned(COMMON);
    if options.quick {
        properties.extend(owned(QUICK));
    }
    let mut set = |key: &str, value: String| properties.push((key.to_owned(), value));
    let replicas = options.nodes.min(3);
    for topic in REPLICATED_TOPICS {
        set(&format!("{topic}.replication.factor"), replicas.to_string());
    }
    // The offsets topic has no setting of its own for this.
    for topic in &REPLICATED_TOPICS[1..] {
        set(&format!("{topic}.min.isr"), replicas.min(2).to_string());
    }
    set("node.id", id.to_string());
    set("controller.quorum.voters", voters(ports, options));
    if !options.is_controller(id) {
        set("process.roles", "broker".to_owned());
    }
    properties.extend(listeners(id, &ports[id - 1], options, certificates));
    properties.extend(options.properties.iter().cloned());
    properties
}

fn voters(ports: &[Ports], options: &KafkaOptions) -> String {
    let voters: Vec<String> = (1..)
        .zip(ports)
        .filter(|(id, _)| options.is_controller(*id))
        .map(|(id, ports)| format!("{id}@127.0.0.1:{}", ports.controller))
        .collect();
    voters.join(",")
}

fn listeners(
    id: usize,
    ports: &Ports,
    options: &KafkaOptions,
    certificates: &Certificates,
) -> Vec<(String, String)> {
    let mut advertised = format!("PLAINTEXT://127.0.0.1:{}", ports.plaintext);
    let mut properties = Vec::new();
    if !options.users.is_empty() || options.client_certificates {
        properties.extend(tls(certificates));
    }
    if options.client_certificates {
        advertised.push_str(&format!(",SSL://127.0.0.1:{}", ports.ssl));
        properties.extend(owned(&[("listener.name.ssl.ssl.client.auth", "required")]));
    }
    if !options.users.is_empty() {
        advertised.push_str(&format!(",SASL_SSL://127.0.0.1:{}", ports.sasl_ssl));
        properties.extend(scram());
    }
    if !options.plain_users.is_empty() {
        advertised.push_str(&format!(
            ",SASL_PLAINTEXT://127.0.0.1:{}",
            ports.sasl_plaintext
        ));
        properties.extend(sasl_plaintext(&options.plain_users));
    }
    let mut listeners = advertised.clone();
    if options.is_controller(id) {
        listeners.push_str(&format!(",CONTROLLER://127.0.0.1:{}", ports.controller));
    }
    if options.proxied {
        listeners.push_str(&format!(",PROXIED://127.0.0.1:{}", ports.proxied));
        advertised.push_str(&format!(",PROXIED://127.0.0.1:{}", ports.proxy));
    }
    properties.push(("advertised.listeners".to_owned(), advertised));
    properties.push(("listeners".to_owned(), listeners));
    properties
}

fn tls(certificates: &Certificates) -> Vec<(String, String)> {
    let server = certificates.server.display().to_string();
    let authority = certificates.ca.display().to_string();
    owned(&[
        ("ssl.keystore.type", "PEM"),
        ("ssl.keystore.location", &server),
        ("ssl.truststore.type", "PEM"),
        ("ssl.truststore.location", &authority),
        ("ssl.client.auth", "requested"),
    ])
}

fn scram() -> Vec<(String, String)> {
    let module = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let enabled = "listener.name.sasl_ssl.sasl.enabled.mechanisms".to_owned();
    let modules = SCRAM.iter().map(|mechanism| {
        let mechanism = mechanism.to_ascii_lowercase();
        let key = format!("listener.name.sasl_ssl.{mechanism}.sasl.jaas.config");
        (key, module.to_owned())
    });
    std::iter::once((enabled, SCRAM.join(",")))
        .chain(modules)
        .collect()
}

fn sasl_plaintext(users: &[(String, String)]) -> Vec<(String, String)> {
    let mut jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required".to_owned();
    for (name, password) in users {
        jaas.push_str(&format!(" user_{name}=\"{password}\""));
    }
    jaas.push(';');
    owned(&[
        (
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms",
            "PLAIN,OAUTHBEARER",
        ),
        // Any token with a subject will do: nobody signed it.
        (
            "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
             unsecuredLoginStringClaim_sub=\"broker\";",
        ),
        ("listener.name.sasl_plaintext.plain.sasl.jaas.config", &jaas),
    ])
}

fn owned(properties: &[(&str, &str)]) -> Vec<(String, String)> {
    properties
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}
