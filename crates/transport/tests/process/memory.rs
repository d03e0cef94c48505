//! A hostile line costs no memory. Alone in its file, and so in its process, because it measures
//! memory.

use crate::support::{LIMIT, LONG_GRACE, message, next, peak, sh, start};
use bowline_transport::pipe::InboundFrame;

#[tokio::test]
async fn a_line_of_a_hundred_megabytes() {
    let flood = r"head -c 100000000 /dev/zero | tr '\0' x; echo";
    let script = format!(r#"{flood}; printf '{{"id":5,"x":"'; {flood}; echo '{{"after":1}}'; exec cat"#);
    let before = peak();
    let mut process = start(&sh(&script), LONG_GRACE).await;
    match next(&mut process.reader).await {
        InboundFrame::Noise(head) => assert!(head.starts_with(b"xxx") && head.len() < LIMIT),
        other => panic!("{other:?}"),
    }
    match next(&mut process.reader).await {
        InboundFrame::TooLarge { head, limit } => {
            assert!(head.starts_with(br#"{"id":5,"#));
            assert_eq!(limit, LIMIT);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(message(&mut process.reader).await, r#"{"after":1}"#);
    let grown = peak() - before;
    assert!(grown < 4 * LIMIT, "grew by {grown} bytes");
}
