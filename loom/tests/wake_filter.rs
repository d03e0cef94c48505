//! Runs the models of the wake filter.

#[test]
fn wake_around_a_poll_reaches_the_task() {
    bowline_loom::wake_around_a_poll();
}

#[test]
fn two_wakes_during_one_poll_are_both_seen() {
    bowline_loom::two_wakes_during_one_poll();
}

#[test]
fn wake_is_kept_when_looks_run_out() {
    bowline_loom::wake_while_looks_run_out();
}

#[test]
fn wake_during_a_handover_reaches_the_next_task() {
    bowline_loom::handover_reaches_the_next_task();
}

#[test]
fn wake_during_rest_is_seen_or_wakes_the_watcher() {
    bowline_loom::look_or_wake_after_rest();
}
