//! The look before a drain that can be done without: whether it could lose a
//! record.

use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use tokio::time::Instant;

use super::Supervisor;
use super::drain::{LOOK, is_quiet};
use crate::credit::Credit;
use crate::inbox::Inbox;
use crate::live_view::ConnectorState;
use crate::mailbox::Letter;
use crate::messages::Quiesce;
use crate::record::RecordId;

/// The source may be asking by the window that it knew, so the first look is
/// not at once. Who does not answer has nothing to tell.
async fn source_is_quiet(credits: Vec<Arc<Credit>>, inbox: Arc<Inbox>, until: Instant) {
    loop {
        tokio::time::sleep(LOOK).await;
        if is_quiet(&credits, &inbox) || Instant::now() >= until {
            return;
        }
    }
}

impl Supervisor {
    /// What is on its last attempt; if there is any, polling goes on.
    fn look_before_drain(&self) -> Vec<RecordId> {
        let last = self.books.lock().on_last_attempt();
        // One that has failed does not poll, and is not to begin again.
        let has_failed = self
            .view
            .connector(&self.connector)
            .is_some_and(|view| matches!(view.state, ConnectorState::Failed(_)));
        if !last.is_empty() && !has_failed && self.drain.is_none() {
            self.books.resume_polling();
        }
        last
    }
}

impl Handler<Letter<Quiesce>> for Supervisor {
    type Result = ();

    fn handle(&mut self, letter: Letter<Quiesce>, ctx: &mut Self::Context) {
        let Quiesce { patience, reply } = letter.message;
        self.fetch_no_more();
        let until = Instant::now() + patience;
        let quiet = source_is_quiet(self.credits(), Arc::clone(&self.inbox), until);
        let quiet = quiet.into_actor(self);
        ctx.spawn(quiet.map(|(), supervisor, _: &mut Context<Self>| {
            // Nobody may be waiting any more.
            let _ = reply.send(supervisor.look_before_drain());
        }));
    }
}
