//! The bounded queue of a hook, which counts what it drops.

use std::collections::VecDeque;

use bowline_config::HookEvent;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::notice::Notice;

/// Notices that a hook has not received yet, in order.
#[derive(Debug, Default)]
pub(super) struct NoticeQueue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    pending: VecDeque<Notice>,
    /// Notices dropped since the last one that was taken.
    missed: u64,
    closed: bool,
}

/// Maximum number of pending notices; beyond it the oldest is dropped.
pub(super) const MAX_PENDING: usize = 256;

impl NoticeQueue {
    /// Adds a notice and drops the oldest if there are too many. Never waits.
    pub(super) fn push(&self, notice: Notice) {
        let mut state = self.state.lock();
        // Repeated tool changes add nothing, and a server that sends them endlessly must not push
        // out other notices.
        let said = |last: &Notice| last.event == notice.event && notice.event == HookEvent::ToolsChanged;
        if state.pending.back().is_some_and(said) {
            return;
        }
        if state.pending.len() == MAX_PENDING {
            state.pending.pop_front();
            state.missed += 1;
        }
        state.pending.push_back(notice);
        drop(state);
        self.changed.notify_one();
    }

    /// Counts notices that were lost before they reached the queue.
    pub(super) fn add_missed(&self, count: u64) {
        let mut state = self.state.lock();
        state.missed = state.missed.saturating_add(count);
    }

    /// Closes the queue. Pending notices are still delivered.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }

    /// Takes the next notice, with the number of notices dropped before it. For one caller at a
    /// time.
    pub(super) async fn next(&self) -> Option<Notice> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(mut notice) = state.pending.pop_front() {
                    notice.missed = std::mem::take(&mut state.missed);
                    return Some(notice);
                }
                if state.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;

    fn notice(event: HookEvent, attempt: u32) -> Notice {
        Notice {
            event,
            server: Arc::from("rope"),
            at: SystemTime::UNIX_EPOCH,
            cause: None,
            cause_kind: None,
            attempt,
            outage: None,
            missed: 0,
        }
    }

    #[tokio::test]
    async fn a_flood_drops_the_oldest_and_says_so() {
        let queue = NoticeQueue::default();
        for attempt in 0..300 {
            queue.push(notice(HookEvent::Disconnected, attempt));
        }
        queue.add_missed(5);
        queue.close();
        let first = queue.next().await.unwrap();
        assert_eq!((first.attempt, first.missed), (44, 49));
        for attempt in 45..300 {
            let next = queue.next().await.unwrap();
            assert_eq!((next.attempt, next.missed), (attempt, 0));
        }
        assert_eq!(queue.next().await, None);
    }

    #[tokio::test]
    async fn a_server_cannot_push_out_what_happened_to_it() {
        let queue = NoticeQueue::default();
        queue.push(notice(HookEvent::SessionLost, 0));
        for _ in 0..10_000 {
            queue.push(notice(HookEvent::ToolsChanged, 0));
        }
        queue.push(notice(HookEvent::Recovered, 0));
        queue.close();
        let mut told = Vec::new();
        while let Some(notice) = queue.next().await {
            told.push((notice.event, notice.missed));
        }
        let expected = [HookEvent::SessionLost, HookEvent::ToolsChanged, HookEvent::Recovered];
        assert_eq!(told, expected.map(|event| (event, 0)));
    }

    #[tokio::test]
    async fn a_waiting_hook_is_woken() {
        let queue = Arc::new(NoticeQueue::default());
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { (queue.next().await, queue.next().await) }
        });
        tokio::task::yield_now().await;
        queue.push(notice(HookEvent::Failed, 1));
        tokio::task::yield_now().await;
        queue.close();
        let (first, second) = waiting.await.unwrap();
        assert_eq!(first.unwrap().event, HookEvent::Failed);
        assert_eq!(second, None);
    }
}
