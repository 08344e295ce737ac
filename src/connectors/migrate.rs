//! `sluice migrate`.

use super::start::{SERVERS, StartError, admin, selection};
use crate::config::connector::ConnectorConfig;
use crate::kafka::admin::{Direction, Migration, MigrationReport};

/// Carries positions between Connect's group and the share group, or only tells
/// which.
pub async fn migrate(
    config: &ConnectorConfig,
    direction: Direction,
    dry_run: bool,
) -> Result<MigrationReport, StartError> {
    let admin = admin(&config.consumer.client, SERVERS).await?;
    let migration = Migration {
        direction,
        consumer_group: config.connect_group(),
        share_group: config.share.group_id.clone(),
        topics: selection(&config.topics)?,
        dry_run,
    };
    Ok(admin.migrate(&migration).await?)
}
