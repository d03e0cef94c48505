//! [`Watch`]: a value that changes, for those who want to know when.

use std::fmt;

use tokio::sync::watch;

/// Watches a value that changes. All clones watch the same value, each at its own pace; only the
/// newest value is kept.
#[derive(Clone)]
pub struct Watch<T>(watch::Receiver<T>);

impl<T: Clone> Watch<T> {
    pub(crate) fn new(receiver: watch::Receiver<T>) -> Self {
        Self(receiver)
    }

    /// The value now.
    pub fn current(&self) -> T {
        self.0.borrow().clone()
    }

    /// Waits for a value that this watch has not returned yet, and returns it. `None` once it
    /// cannot change any more.
    ///
    /// Dropping the future loses nothing.
    pub async fn changed(&mut self) -> Option<T> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }

    /// Waits until the value fulfills a condition, which the current one may do already. `None` if
    /// it cannot change any more.
    ///
    /// Dropping the future loses nothing.
    pub async fn wait_for(&mut self, condition: impl FnMut(&T) -> bool) -> Option<T> {
        self.0.wait_for(condition).await.ok().map(|value| value.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&*self.0.borrow()).finish()
    }
}
