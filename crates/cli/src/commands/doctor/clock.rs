//! The check `clock`: whether the clock of this machine agrees with that of the server.

use std::time::{Duration, Instant, SystemTime};

use bowline::config::Http;
use bowline_transport::http::{AddressSource, FetchLimits, Fetcher, Proxies};
use bytes::Bytes;
use http::header::DATE;
use http::{Method, Request};

use super::check::{Blame, CheckLog, Finding};
use super::tls::clock_command;
use crate::exit::Exit;
use crate::print::clock;

/// How far the clocks may be apart. Tokens and certificates become unusable beyond minutes.
const MAX_SKEW: Duration = Duration::from_secs(120);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the server for its time with a request that has no effect.
pub(super) async fn check(http: &Http, log: &CheckLog) {
    let begun = Instant::now();
    let date = fetch_date(http).await;
    log.add("clock", begun, finding(date, SystemTime::now()));
}

/// Returns the `Date` of the answer to an OPTIONS request, which needs no credentials.
async fn fetch_date(http: &Http) -> Option<SystemTime> {
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = Method::OPTIONS;
    *request.uri_mut() = http.url.as_str().parse().ok()?;
    let limits = FetchLimits { connect: REQUEST_TIMEOUT, total: REQUEST_TIMEOUT, ..FetchLimits::default() };
    let fetcher =
        Fetcher::new(http.tls.clone(), Proxies::System).with_certificate_for(&http.url).limits(limits);
    let response = fetcher.send(request, AddressSource::User).await.ok()?;
    httpdate::parse_http_date(response.headers().get(DATE)?.to_str().ok()?).ok()
}

fn finding(date: Option<SystemTime>, now: SystemTime) -> Finding {
    let Some(date) = date else { return Finding::ok("the server does not tell its time") };
    let (skew, word) = match now.duration_since(date) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    if skew <= MAX_SKEW {
        return Finding::ok("it agrees with that of the server");
    }
    let seen = format!("the clock of this machine is {} {word} that of the server", clock::format_span(skew));
    Finding::failed(Blame::Machine, Exit::Usage, seen)
        .fix("set the clock: tokens and certificates seem invalid otherwise")
        .run(clock_command())
        .without_effect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::check::Status;

    #[test]
    fn clock_that_is_wrong_is_noticed_in_both_directions() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let minute = Duration::from_secs(60);
        let of = |date| {
            let finding = finding(Some(date), now);
            (finding.status, finding.seen)
        };
        assert_eq!(of(now - minute).0, Status::Ok);
        assert_eq!(
            of(now - 10 * minute),
            (Status::Warning, "the clock of this machine is 10m 00s ahead of that of the server".to_owned())
        );
        assert_eq!(
            of(now + 120 * minute),
            (Status::Warning, "the clock of this machine is 2h 00m behind that of the server".to_owned())
        );
        assert_eq!(finding(None, now).status, Status::Ok);
    }
}
