//! A real Kafka cluster for tests: KRaft, one node or three, each a JVM.
//!
//! ```no_run
//! # use sluice_test_support::kafka::{Kafka, KafkaOptions};
//! # async fn example() -> anyhow::Result<()> {
//! let kafka = Kafka::start(KafkaOptions::new().user("alice", "alice-secret")).await?;
//! let admin = kafka.admin().await?;
//! admin.create_topic("orders", 12).await?;
//! println!("{}", kafka.bootstrap_servers());
//! # Ok(())
//! # }
//! ```

use std::{net::Ipv4Addr, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::{
    node::{Node, Ports},
    process::Signal,
    proxy::Proxy,
    settings::node_properties,
    tls::Certificates,
    topics::Admin,
    wait::eventually,
};

pub use crate::settings::KafkaOptions;

const START_TIMEOUT: Duration = Duration::from_secs(90);
const START_TRIES: usize = 5;
const PORT_TAKEN: &str = "Address already in use";

/// A running cluster. Dropped, its processes are killed and its data is gone.
#[derive(Debug)]
pub struct Kafka {
    // Before the folder: fields are dropped in this order.
    nodes: Vec<Node>,
    bootstrap_servers: String,
    secure_bootstrap_servers: Option<String>,
    plain_bootstrap_servers: Option<String>,
    ssl_bootstrap_servers: Option<String>,
    proxied_bootstrap_servers: Option<String>,
    /// Where the proxies of the nodes listen, and what is behind each.
    proxies: Vec<[u16; 2]>,
    certificates: Certificates,
    _folder: TempDir,
}

static SHARED: OnceCell<Kafka> = OnceCell::const_new();

impl Kafka {
    /// Starts a cluster and waits until all its nodes serve.
    ///
    /// # Errors
    /// If it does not come up; then with the end of the failed node's log.
    pub async fn start(options: KafkaOptions) -> Result<Self> {
        let mut tries = 1;
        loop {
            match Self::try_start(&options).await {
                // Another process may take a port between our look and Kafka's.
                Err(error) if tries < START_TRIES && format!("{error:#}").contains(PORT_TAKEN) => {
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    /// The one-node cluster with quick settings that all tests of a test
    /// binary share; started by the first. Use topics and groups of your own
    /// (`unique_name`).
    ///
    /// # Errors
    /// If it does not come up.
    pub async fn shared() -> Result<&'static Self> {
        SHARED
            .get_or_try_init(|| Self::start(KafkaOptions::new()))
            .await
    }

    async fn try_start(options: &KafkaOptions) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("sluice-kafka-").tempdir()?;
        let certificates = Certificates::create(folder.path())?;
        let ports = (0..options.nodes)
            .map(|_| Ports::pick())
            .collect::<Result<Vec<_>>>()?;
        let nodes = (1..=options.nodes)
            .map(|id| {
                Node::new(
                    id,
                    folder.path().to_owned(),
                    options.jvm_options(),
                    &node_properties(id, &ports, options, &certificates),
                )
            })
            .collect::<Result<Vec<_>>>()?;
        let servers = |port: fn(&Ports) -> u16| {
            let servers: Vec<String> = ports
                .iter()
                .map(|ports| format!("127.0.0.1:{}", port(ports)))
                .collect();
            servers.join(",")
        };
        let kafka = Self {
            nodes,
            bootstrap_servers: servers(|ports| ports.plaintext),
            secure_bootstrap_servers: (!options.users.is_empty())
                .then(|| servers(|ports| ports.sasl_ssl)),
            plain_bootstrap_servers: (!options.plain_users.is_empty())
                .then(|| servers(|ports| ports.sasl_plaintext)),
            ssl_bootstrap_servers: options
                .client_certificates
                .then(|| servers(|ports| ports.ssl)),
            proxied_bootstrap_servers: options.proxied.then(|| servers(|ports| ports.proxy)),
            proxies: ports.iter().map(|it| [it.proxy, it.proxied]).collect(),
            certificates,
            _folder: folder,
        };
        kafka.format(options).await?;
        for node in &kafka.nodes {
            node.start()?;
        }
        kafka.wait_for_nodes(options.nodes).await?;
        Ok(kafka)
    }

    async fn format(&self, options: &KafkaOptions) -> Result<()> {
        let mut running = Vec::new();
        for node in &self.nodes {
            let child = tokio::process::Command::from(node.format(options)?)
                .kill_on_drop(true)
                .spawn()
                .context("cannot start java (17 or newer): run `./test setup`")?;
            running.push(child);
        }
        for child in running {
            let output = child.wait_with_output().await?;
            if !output.status.success() {
                let complaint = String::from_utf8_lossy(&output.stderr);
                bail!("Kafka's storage cannot be formatted: {complaint}");
            }
        }
        Ok(())
    }

    /// Waits until `count` nodes take part in the cluster.
    ///
    /// # Errors
    /// If they do not in time, or a node died by itself.
    pub async fn wait_for_nodes(&self, count: usize) -> Result<()> {
        let ready = eventually("Kafka serves", START_TIMEOUT, async || {
            for node in &self.nodes {
                if let Err(death) = node.check_alive() {
                    return Ok(Err(death));
                }
            }
            let admin = self.admin().await.map_err(|error| format!("{error:#}"))?;
            match admin.live_nodes().await {
                Ok(live) if live.len() == count => Ok(Ok(())),
                Ok(live) => Err(format!("nodes {live:?} of {count}")),
                Err(error) => Err(format!("{error:#}")),
            }
        });
        ready.await.with_context(|| self.log_tail())?
    }

    /// Where the PLAINTEXT listeners are, as `bootstrap.servers`.
    #[must_use]
    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// Where the `SASL_SSL` listeners (SCRAM) are.
    ///
    /// # Errors
    /// If the cluster was started without users.
    pub fn secure_bootstrap_servers(&self) -> Result<&str> {
        self.secure_bootstrap_servers
            .as_deref()
            .context("no SASL_SSL listener: name a user in KafkaOptions")
    }

    /// Where the `SSL` listeners are, which ask for a client's certificate.
    ///
    /// # Errors
    /// If the cluster was started without client certificates.
    pub fn ssl_bootstrap_servers(&self) -> Result<&str> {
        self.ssl_bootstrap_servers
            .as_deref()
            .context("no SSL listener: ask for client certificates in KafkaOptions")
    }

    /// Where the `SASL_PLAINTEXT` listeners (PLAIN, OAUTHBEARER) are.
    ///
    /// # Errors
    /// If the cluster was started without plain users.
    pub fn plain_bootstrap_servers(&self) -> Result<&str> {
        self.plain_bootstrap_servers
            .as_deref()
            .context("no SASL_PLAINTEXT listener: name a plain user in KafkaOptions")
    }

    /// Where the `PROXIED` listeners are: at the nodes' proxies.
    ///
    /// # Errors
    /// If the cluster was started without.
    pub fn proxied_bootstrap_servers(&self) -> Result<&str> {
        self.proxied_bootstrap_servers
            .as_deref()
            .context("no PROXIED listener: ask for it in KafkaOptions")
    }

    /// Starts the proxies in front of the `PROXIED` listeners, for the runtime
    /// of the caller; one set at a time.
    ///
    /// # Errors
    /// If others run already.
    pub async fn proxies(&self) -> Result<Vec<Proxy>> {
        let mut proxies = Vec::new();
        for ports in &self.proxies {
            let [proxy, node] = ports.map(|port| (Ipv4Addr::LOCALHOST, port).into());
            proxies.push(Proxy::start(proxy, node).await?);
        }
        Ok(proxies)
    }

    /// The PEM file of the authority that signed the brokers' certificates.
    #[must_use]
    pub fn ca_file(&self) -> &Path {
        &self.certificates.ca
    }

    /// A PEM file with a client's key and certificate of the same authority.
    #[must_use]
    pub fn client_certificate_file(&self) -> &Path {
        &self.certificates.client
    }

    /// A new administration client, for the runtime of the caller.
    ///
    /// # Errors
    /// If no broker answers.
    pub async fn admin(&self) -> Result<Admin> {
        Admin::connect(&self.bootstrap_servers).await
    }

    /// Kills node `id` (1, 2, ...) as `kill -9` does. Its data stays.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn kill_node(&self, id: usize) -> Result<()> {
        self.node(id)?.kill();
        Ok(())
    }

    /// Starts a killed or stopped node again, on its data and its ports. Wait
    /// for it with `wait_for_nodes`.
    ///
    /// # Errors
    /// If there is no such node or it cannot be started.
    pub fn start_node(&self, id: usize) -> Result<()> {
        self.node(id)?.start()
    }

    /// Sends a signal to node `id`: STOP and CONT freeze and wake it, TERM
    /// shuts it down.
    ///
    /// # Errors
    /// If it does not run.
    pub fn signal_node(&self, id: usize, signal: Signal) -> Result<()> {
        self.node(id)?.signal(signal)
    }

    /// Whether node `id` was killed, or has ended after a signal.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn node_has_ended(&self, id: usize) -> Result<bool> {
        self.node(id)?.has_ended()
    }

    /// The process id of node `id`, while it runs.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn node_pid(&self, id: usize) -> Result<Option<u32>> {
        Ok(self.node(id)?.pid())
    }

    /// The last lines of all nodes' logs (warnings and errors).
    #[must_use]
    pub fn log_tail(&self) -> String {
        let tails: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("-- log of Kafka node {}:\n{}", node.id, node.log_tail()))
            .collect();
        tails.join("\n")
    }

    fn node(&self, id: usize) -> Result<&Node> {
        self.nodes
            .iter()
            .find(|node| node.id == id)
            .with_context(|| format!("no Kafka node {id}, they are 1 to {}", self.nodes.len()))
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
    }
}
