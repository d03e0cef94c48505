//! Shows a progress bar on stderr while a call runs, if that is a terminal.

use std::time::Duration;

use bowline::types::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Printer, escape, output_hold};

/// A progress bar, which is hidden if stderr cannot be animated. Dropping it erases it.
pub(crate) struct Bar(ProgressBar);

/// Updates a bar from another task.
#[derive(Clone)]
pub(crate) struct BarUpdater(ProgressBar);

impl Bar {
    /// Shows a spinner until the server reports progress.
    pub(crate) fn start(printer: &Printer, what: &str) -> Self {
        let bar = ProgressBar::no_length();
        if !printer.can_animate() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            return Self(bar);
        }
        bar.set_draw_target(ProgressDrawTarget::term_like_with_hz(Box::new(output_hold::BarTerminal), 20));
        bar.set_style(style("{spinner} {prefix} {wide_msg} {elapsed}"));
        bar.set_prefix(escape::line(what).into_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Returns what shows progress on this bar.
    pub(crate) fn updater(&self) -> BarUpdater {
        BarUpdater(self.0.clone())
    }

    /// Erases the bar.
    pub(crate) fn finish(&self) {
        if !self.0.is_finished() {
            self.0.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        // A call that is interrupted must leave nothing on the screen.
        self.finish();
    }
}

impl BarUpdater {
    /// Shows the reported progress. It is called from the task that reads the connection.
    pub(crate) fn update(&self, progress: &Progress) {
        let bar = &self.0;
        // Progress may still come when the call is over.
        if bar.is_hidden() || bar.is_finished() {
            return;
        }
        if let Some(permille) = permille(progress) {
            if bar.length().is_none() {
                bar.set_length(1000);
                bar.set_style(style("{spinner} {prefix} [{bar:24}] {percent:>3}% {wide_msg} {elapsed}"));
            }
            bar.set_position(permille);
        }
        if let Some(message) = &progress.message {
            bar.set_message(shorten_message(message));
        } else if progress.total.is_none() {
            bar.set_message(format!("{}", progress.progress));
        }
    }
}

/// Returns the beginning of a message as one line: the bar measures all of it each time it is drawn.
fn shorten_message(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", escape::line(&message[..end])),
        None => escape::line(message).into_owned(),
    }
}

const MAX_MESSAGE_CHARS: usize = 200;

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the template is fixed")
        .progress_chars("=> ")
        .tick_strings(&["|", "/", "-", "\\", " "])
}

/// Returns the progress in thousandths, if the server gave a sensible total.
fn permille(progress: &Progress) -> Option<u64> {
    let total = progress.total.filter(|total| *total > 0.0)?;
    let share = (progress.progress / total).clamp(0.0, 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
    share.is_finite().then_some((share * 1000.0) as u64)
}

#[cfg(test)]
mod tests {
    use bowline::Id;
    use bowline_testkit::with;

    use super::*;

    #[test]
    fn long_message_is_cut() {
        assert_eq!(shorten_message("half\u{1b}done"), escape::line("half\u{1b}done"));
        assert_eq!(shorten_message(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(shorten_message(&"é".repeat(1_000_000)), format!("{}…", "é".repeat(200)));
    }

    #[test]
    fn progress_share_is_clamped() {
        let of = |progress, total| permille(&with!(Progress::new(Id::from(1_u64), progress), total: total));
        assert_eq!(of(1.0, Some(4.0)), Some(250));
        assert_eq!(of(9.0, Some(4.0)), Some(1000));
        assert_eq!(of(-1.0, Some(4.0)), Some(0));
        for nonsense in [None, Some(0.0), Some(-1.0), Some(f64::NAN)] {
            assert_eq!(of(1.0, nonsense), None);
        }
        assert_eq!(of(f64::NAN, Some(1.0)), None);
    }
}
