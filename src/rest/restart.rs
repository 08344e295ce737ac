//! Restarts. A worker's connector is its pipeline, so that restarting the
//! connector restarts its tasks along with it.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use sluice_actors::live_view::TaskState;

use super::body;
use super::connectors::task_id;
use super::error::RestError;
use super::state::{Parameters, Rest, is_set};
use crate::telemetry::sight::{ConnectorSight, Status};

/// `includeTasks` and `onlyFailed`.
#[derive(Clone, Copy, Debug)]
struct Which {
    include_tasks: bool,
    only_failed: bool,
}

/// What a request comes down to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    Pipeline,
    Tasks(Vec<u32>),
}

impl Which {
    fn of(parameters: &Parameters) -> Self {
        let is_set = |name| is_set(parameters, name).unwrap_or(false);
        Self {
            include_tasks: is_set("includeTasks"),
            only_failed: is_set("onlyFailed"),
        }
    }

    fn plan(self, sight: &ConnectorSight) -> Plan {
        if !self.only_failed || sight.status == Status::Failed {
            return Plan::Pipeline;
        }
        let failed = sight.tasks.iter();
        let failed = failed.filter(|task| self.include_tasks && task.status == Status::Failed);
        Plan::Tasks(failed.map(|task| task.id).collect())
    }
}

/// `POST /connectors/{name}/restart`
pub(super) async fn connector(
    State(rest): State<Rest>,
    Path(name): Path<String>,
    Query(query): Query<Parameters>,
) -> Result<Response, RestError> {
    let which = Which::of(&query);
    let sight = rest.sight(&name);
    let mut sight =
        sight.ok_or_else(|| RestError::not_found(format!("Unknown connector: {name}")))?;
    match which.plan(&sight) {
        Plan::Pipeline => {
            refuse_to_lose(&sight)?;
            let order = rest.connectors.restart(&name);
            order.map_err(|error| RestError::of_order(&name, None, error))?;
            sight.status = Status::Restarting;
            for task in &mut sight.tasks {
                task.status = Status::Restarting;
            }
        }
        Plan::Tasks(tasks) => {
            for task in tasks {
                let order = rest.connectors.restart_task(&name, task);
                order.map_err(|error| RestError::of_order(&name, Some(task), error))?;
                sight.tasks[task as usize].status = Status::Restarting;
            }
        }
    }
    if which.include_tasks || which.only_failed {
        let status = Json(body::status(&sight, &rest.worker_id));
        Ok((StatusCode::ACCEPTED, status).into_response())
    } else {
        Ok(StatusCode::NO_CONTENT.into_response())
    }
}

/// `POST /connectors/{name}/tasks/{id}/restart`
pub(super) async fn task(
    State(rest): State<Rest>,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, RestError> {
    let id = task_id(&id)?;
    if let Some(sight) = rest.sight(&name) {
        refuse_in_vain(&sight, id)?;
    }
    let order = rest.connectors.restart_task(&name, id);
    order.map_err(|error| RestError::of_order(&name, Some(id), error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// A task whose connector has failed finds nothing to do; one that has failed
/// of itself may be what the connector waits for.
fn refuse_in_vain(sight: &ConnectorSight, task: u32) -> Result<(), RestError> {
    let task = sight.tasks.get(task as usize);
    let is_in_vain = task.is_some_and(|task| !matches!(task.state, TaskState::Failed(_)));
    let Some(cause) = sight.failure().filter(|_| is_in_vain) else {
        return Ok(());
    };
    let name = &sight.name;
    Err(RestError::new(
        StatusCode::CONFLICT,
        format!(
            "Connector {name} has failed, and its tasks with it; restart the connector: POST \
             /connectors/{name}/restart. Cause of the failure: {cause}"
        ),
    ))
}

/// A restart gives back what it cannot finish, and the broker archives what
/// comes back from its last attempt. The keeper looks once more, at the books.
fn refuse_to_lose(sight: &ConnectorSight) -> Result<(), RestError> {
    if sight.view.attempts_left != Some(0) {
        return Ok(());
    }
    let name = &sight.name;
    let remedy = match sight.failure() {
        None => "Wait until it is delivered, or".to_owned(),
        Some(cause) => format!("Cause of the failure: {cause}. Mend it,"),
    };
    Err(RestError::new(
        StatusCode::CONFLICT,
        format!(
            "Connector {name} has a record on its last delivery attempt; given back, the broker \
             would archive it. {remedy} raise share.delivery.count.limit of its share group, and \
             in its configuration if it is set there, and restart the worker"
        ),
    ))
}

#[cfg(test)]
mod tests {

    use sluice_actors::live_view::{ConnectorState, ConnectorView};
    use tokio::time::Instant;

    use super::*;
    use crate::telemetry::rates::ConnectorRates;

    fn sight(state: ConnectorState, attempts_left: Option<u16>) -> ConnectorSight {
        ConnectorSight {
            name: "orders".into(),
            at: Instant::now(),
            view: ConnectorView {
                state,
                in_flight: 1,
                attempts_left,
                ..ConnectorView::default()
            },
            status: Status::Running,
            rates: ConnectorRates::default(),
            tasks: Vec::new(),
            make: None,
        }
    }

    #[test]
    fn a_restart_that_could_lose_a_record_is_refused_whatever_the_record_waits_for() {
        let failed = || ConnectorState::Failed("record orders-0@7".into());
        for may in [None, Some(1)] {
            assert_eq!(refuse_to_lose(&sight(failed(), may)), Ok(()), "{may:?}");
            let running = sight(ConnectorState::Running, may);
            assert_eq!(refuse_to_lose(&running), Ok(()), "{may:?}");
        }
        for (state, remedy) in [
            (ConnectorState::Running, "Wait until it is delivered"),
            (failed(), "record orders-0@7. Mend it"),
        ] {
            let refused = format!("{:?}", refuse_to_lose(&sight(state, Some(0))));
            assert!(refused.contains("409"), "{refused}");
            assert!(refused.contains(remedy), "{refused}");
            assert!(refused.contains("share.delivery.count.limit"), "{refused}");
        }
    }
}
