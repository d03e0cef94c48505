//! Tests of the question queue: order, limits and timeouts.

use std::time::Duration;

use futures_util::FutureExt as _;

use super::*;

fn asking<'a>(host: &'a Host, server: &str) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + 'a>> {
    host.handle(request(server, method::ELICIT, &form(json!({}))))
}

fn shown(server: &str) -> DialogEvent {
    DialogEvent::Form(server.into(), None, "?".into())
}

/// CN-04: a canceled question is dismissed and the next one is shown; a waiting one is removed.
#[tokio::test]
async fn cn_04_one_question_at_a_time() {
    let (person, mut seen) = Person::new(Modes::FORM, []);
    let host = Host::new().elicitation(person);
    // Another client with the same person.
    let other = host.clone();
    let (mut first, mut second, mut third) = (asking(&host, "a"), asking(&other, "b"), asking(&other, "c"));
    for question in [&mut first, &mut second, &mut third] {
        assert!(question.now_or_never().is_none());
    }
    assert_eq!(seen.try_recv(), Ok(shown("a")));
    assert!(seen.try_recv().is_err(), "the others wait");
    drop(second);
    assert!(seen.try_recv().is_err(), "it was never shown");
    drop(first);
    assert_eq!(seen.try_recv(), Ok(DialogEvent::Dismissed));
    assert!((&mut third).now_or_never().is_none());
    assert_eq!(seen.try_recv(), Ok(shown("c")));
}

/// EL-12: a server with many questions does not block another one.
#[tokio::test]
async fn el_12_servers_take_turns() {
    let (person, mut seen) = Person::new(Modes::FORM, []);
    let host = Host::new().elicitation(person);
    let mut open: Vec<_> = ["a", "a", "a", "b"].map(|server| (server, asking(&host, server))).into();
    for next in ["a", "b", "a", "a"] {
        for (_, question) in &mut open {
            assert!(question.now_or_never().is_none());
        }
        assert_eq!(seen.try_recv(), Ok(shown(next)));
        let at = open.iter().position(|(server, _)| *server == next).unwrap();
        drop(open.remove(at));
        assert_eq!(seen.try_recv(), Ok(DialogEvent::Dismissed));
    }
}

/// EL-12: open questions are limited per server, and canceled ones make room.
#[tokio::test]
async fn el_12_questions_do_not_pile_up() {
    let (person, _seen) = Person::new(Modes::FORM, []);
    let host =
        Host::new().elicitation(person).questions(QuestionLimits { open: 2, ..QuestionLimits::default() });
    let mut open = vec![asking(&host, "a"), asking(&host, "a")];
    for question in &mut open {
        assert!(question.now_or_never().is_none());
    }
    let refused = asking(&host, "a").now_or_never().expect("at once").unwrap_err();
    assert_eq!(refused.code, code::INTERNAL_ERROR);
    assert!(asking(&host, "b").now_or_never().is_none(), "another server may ask");
    open.pop();
    assert!(asking(&host, "a").now_or_never().is_none(), "there is room again");
}

/// EL-12: questions per minute are limited, including those declined without asking.
#[tokio::test(start_paused = true)]
async fn el_12_questions_are_limited_by_the_minute() {
    let (person, _seen) = Person::new(Modes::FORM, vec![Reply::Cancel; 10]);
    let host = Host::new()
        .elicitation(person)
        .questions(QuestionLimits { per_minute: 3, ..QuestionLimits::default() });
    for _ in 0..2 {
        asking(&host, "a").await.unwrap();
    }
    host.handle(request("a", method::ELICIT, &form(json!({ "x": {} })))).await.unwrap();
    assert_eq!(asking(&host, "a").await.unwrap_err().code, code::INTERNAL_ERROR);
    asking(&host, "b").await.unwrap();
    tokio::time::advance(Duration::from_secs(61)).await;
    asking(&host, "a").await.unwrap();
}

/// EL-08: an unanswered question is canceled, and its dialog is closed.
#[tokio::test(start_paused = true)]
async fn el_08_an_unanswered_question_is_dismissed() {
    let (person, mut seen) = Person::new(Modes::FORM, []);
    let answer_timeout = Duration::from_secs(60);
    let host = Host::new()
        .elicitation(person)
        .questions(QuestionLimits { answer_timeout, ..QuestionLimits::default() });
    // Time in the queue does not count.
    let (first, second) = tokio::join!(asking(&host, "a"), asking(&host, "b"));
    for answer in [first, second] {
        assert_eq!(answer.unwrap().as_str(), r#"{"action":"cancel"}"#);
    }
    let all = [shown("a"), DialogEvent::Dismissed, shown("b"), DialogEvent::Dismissed];
    for expected in all {
        assert_eq!(seen.try_recv(), Ok(expected));
    }
}
