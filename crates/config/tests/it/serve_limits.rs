//! Tests of `[serve.limits]`: what one host of `bowline serve` may use.

use bowline_config::{Config, ServeLimits, ServeSettings};
use bowline_testkit::with;

use crate::{note_lines, parse_errors, parse_valid};

#[test]
fn limits_are_read() {
    let text =
        "[serve.limits]\nrequests_in_flight = 7\nrequests_per_second = 20\nsessions = 3\nbody_kib = 512\n";
    let config = parse_valid("c.toml", text);
    assert_eq!(note_lines(&config.notes), "");
    let limits = config.serve.limits;
    let rate = limits.rate.unwrap();
    assert_eq!((rate.per_second, rate.burst), (20, 200), "a burst of ten seconds");
    let expected = with!(
        ServeLimits::default(),
        requests_in_flight: 7, rate: Some(rate), sessions: Some(3), body_kib: 512
    );
    assert_eq!(limits, expected);
    let config = parse_valid("c.toml", "serve.limits = { requests_per_second = 5, burst = 9 }");
    let rate = config.serve.limits.rate.unwrap();
    assert_eq!((rate.per_second, rate.burst), (5, 9));
    assert_eq!(parse_valid("c.toml", "[serve]\n").serve, ServeSettings::default());
    assert_eq!(parse_valid("c.toml", "").serve, ServeSettings::default());
}

#[test]
fn mistakes_are_named_at_their_place() {
    for (limits, expected) in [
        (
            "burst = 5",
            "c.toml:2:9: serve.limits.burst: belongs to `requests_per_second`\n  \
             hint: without it requests may come as fast as they are answered",
        ),
        ("body = 5", "c.toml:2:1: serve.limits.body: unknown key\n  hint: did you mean `body_kib`?"),
    ] {
        assert_eq!(parse_errors("c.toml", &format!("[serve.limits]\n{limits}")), expected);
    }
    for limits in ["requests_in_flight = 0", "requests_per_second = 0", "sessions = -1", "burst = 'x'"] {
        let errors = parse_errors("c.toml", &format!("[serve.limits]\n{limits}"));
        assert!(errors.contains("must be a whole number"), "{errors}");
    }
}

#[test]
fn a_project_does_not_set_how_hosts_are_served() {
    let user = parse_valid("user.toml", "[serve.limits]\nsessions = 3\n");
    let project = parse_valid("project.toml", "[serve.limits]\nsessions = 9\n");
    let layered = Config::layered(user.clone(), project);
    assert_eq!(layered.serve, user.serve);
    assert!(
        note_lines(&layered.notes).contains("serve: not used: a project cannot configure `bowline serve`")
    );
}
