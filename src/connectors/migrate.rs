//! `sluice migrate NAME --to share`.

use super::start::{StartError, connect, selection};
use crate::config::connector::ConnectorConfig;
use crate::kafka::admin::{Admin, Direction, Migration, MigrationReport};

/// Carries the positions of Connect's group over to the share group.
pub async fn migrate(config: &ConnectorConfig) -> Result<MigrationReport, StartError> {
    let admin = Admin::new(
        connect(config).await?.admin(),
        config.consumer.client.bootstrap_servers.join(","),
    );
    let migration = Migration {
        direction: Direction::ToShare,
        consumer_group: config.connect_group(),
        share_group: config.share.group_id.clone(),
        topics: selection(&config.topics)?,
        dry_run: false,
    };
    Ok(admin.migrate(&migration).await?)
}
