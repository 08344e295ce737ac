//! `sluice migrate`.

use super::start::{StartError, connect, selection};
use crate::config::connector::ConnectorConfig;
use crate::kafka::admin::{Admin, Direction, Migration, MigrationReport};

/// Carries positions between Connect's group and the share group, or only tells
/// which.
pub async fn migrate(
    config: &ConnectorConfig,
    direction: Direction,
    dry_run: bool,
) -> Result<MigrationReport, StartError> {
    let admin = Admin::new(
        connect(config).await?.admin(),
        config.consumer.client.bootstrap_servers.join(","),
    );
    let migration = Migration {
        direction,
        consumer_group: config.connect_group(),
        share_group: config.share.group_id.clone(),
        topics: selection(&config.topics)?,
        dry_run,
    };
    Ok(admin.migrate(&migration).await?)
}
