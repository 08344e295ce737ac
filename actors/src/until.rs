//! The one way to wait for a state that others change.

use tokio::sync::Notify;

/// Waits until something is so; who makes it so notifies all who wait.
pub(crate) async fn until(changed: &Notify, is_so: impl Fn() -> bool) {
    loop {
        let word = changed.notified();
        tokio::pin!(word);
        // Registered before the look, so that no word falls in between.
        word.as_mut().enable();
        if is_so() {
            return;
        }
        word.await;
    }
}
