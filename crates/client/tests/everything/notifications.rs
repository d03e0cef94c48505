//! Notifications of the server: resource updates, list changes, log lines and progress.

use bowline::types::{LogLevel, LogMessage};
use bowline::{Client, Event, EventReceiver, ListKind, Topic};
use serde_json::{Value, json};

use crate::{Everything, within};

/// Waits for the next log line.
async fn next_log_line(events: &mut EventReceiver<Event>) -> LogMessage {
    loop {
        if let Event::Notification(said) = events.next().await.unwrap()
            && let Topic::Log(params) = said.topic()
        {
            return LogMessage::decode(params).unwrap();
        }
    }
}

/// RS-03: updates reach subscribers, and dropping a subscription unsubscribes at the server.
#[tokio::test]
async fn a_subscription_hears_of_updates() {
    within("subscriptions", async {
        for everything in Everything::start_both().await {
            let client = everything.connect_listening().await;
            let uri = |id: u32| format!("demo://resource/dynamic/text/{id}");
            let mut one = client.subscribe(&uri(1)).await.unwrap();
            let mut two = client.subscribe(&uri(2)).await.unwrap();
            client.call_tool("toggle-subscriber-updates", &Value::Null).await.unwrap();
            for (subscription, id) in [(&mut one, 1), (&mut two, 2)] {
                let update = subscription.next().await.unwrap();
                assert_eq!((update.uri, update.inferred), (uri(id), false));
            }
            // A subscriber reads the resource again after an update.
            assert_eq!(client.read_resource(one.uri()).await.unwrap().contents.len(), 1);

            client.set_log_level(LogLevel::Info).await.unwrap();
            let mut events = client.events();
            drop(one);
            let left = next_log_line(&mut events).await;
            let expected = format!("Received Unsubscribe Resource request: {}", uri(1));
            assert!(left.data.as_str().contains(&expected), "{left:?}");
            client.close().await;
            assert_eq!(two.next().await, None, "closed means no more");
        }
    })
    .await;
}

/// TL-10: a tool that creates a resource changes the list; the event carries the difference.
#[tokio::test]
async fn a_list_change_is_announced_with_its_difference() {
    within("lists", async {
        for everything in Everything::start_both().await {
            let client = everything.connect_listening().await;
            let before = client.list_resources().await.unwrap().len();
            client.track_lists();
            let mut events = client.events();
            let arguments = json!({ "name": "knot.gz", "data": "data:text/plain,bowline" });
            client.call_tool("gzip-file-as-resource", &arguments).await.unwrap();
            let change = loop {
                if let Event::ListChanged(change) = events.next().await.unwrap() {
                    break change;
                }
            };
            assert_eq!(change.list, ListKind::Resources);
            assert_eq!(change.added, [Box::<str>::from("demo://resource/session/knot.gz")]);
            assert!(change.removed.is_empty() && change.changed.is_empty(), "{change:?}");
            assert_eq!(client.list_resources().await.unwrap().len(), before + 1);
            client.close().await;
        }
    })
    .await;
}

/// LG-01, LG-03: the server logs at random levels; every line from the chosen level up arrives, and
/// no other.
#[tokio::test]
async fn log_lines_arrive_from_the_chosen_level_up() {
    within("logging", async {
        for everything in Everything::start_both().await {
            let client = everything.connect_listening().await;
            let mut events = client.events();
            client.set_log_level(LogLevel::Error).await.unwrap();
            toggle_logging(&client).await;
            client.set_log_level(LogLevel::Debug).await.unwrap();
            // This line has level `info`, so it marks the end of the lines at the higher level.
            drop(client.subscribe("demo://resource/dynamic/text/9").await.unwrap());
            let mut severe = Vec::new();
            loop {
                let log = next_log_line(&mut events).await;
                if log.data.as_str().contains("Received Subscribe") {
                    break;
                }
                severe.push(log.level);
            }
            // About half of the lines have at least this level, so seeing none of 40 is practically
            // impossible.
            assert!(!severe.is_empty());
            assert!(severe.iter().all(|level| *level >= LogLevel::Error), "{severe:?}");

            toggle_logging(&client).await;
            let mut all = 0;
            while all < LOGGING_TOGGLES {
                all += usize::from(next_log_line(&mut events).await.data.as_str().contains("message"));
            }
            client.close().await;
        }
    })
    .await;
}

const LOGGING_TOGGLES: usize = 40;

/// Switches simulated logging on and off. Each time it is switched on, the server logs at once.
async fn toggle_logging(client: &Client) {
    for _ in 0..2 * LOGGING_TOGGLES {
        client.call_tool("toggle-simulated-logging", &Value::Null).await.unwrap();
    }
}

/// PR-02: progress is delivered as a stream that is read beside the call.
#[tokio::test]
async fn progress_is_a_stream() {
    within("progress", async {
        for everything in Everything::start_both().await {
            let client = everything.connect().await;
            let arguments = json!({ "duration": 0.5, "steps": 25 });
            let mut call = client.call("trigger-long-running-operation").arguments(&arguments).start();
            let mut stream = call.progress();
            let steps = async {
                let mut steps = Vec::new();
                while let Some(progress) = stream.next().await {
                    steps.push((progress.progress, progress.total));
                }
                steps
            };
            let (result, steps) = tokio::join!(call, steps);
            assert!(!result.unwrap().is_error);
            let expected: Vec<_> = (1..=25).map(|step| (f64::from(step), Some(25.0))).collect();
            assert_eq!(steps, expected);
            client.close().await;
        }
    })
    .await;
}
