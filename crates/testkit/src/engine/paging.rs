//! Cutting a list into pages, with well-behaved and hostile cursors.

use serde_json::{Value, json};

use crate::rpc::{INVALID_PARAMS, Refusal};
use crate::script::{Cursors, Paging};

/// Returns the page of `items` that `params.cursor` requests, as a result with the member `key`.
pub(super) fn cut_page(paging: Paging, key: &str, items: &[Value], params: &Value) -> Result<Value, Refusal> {
    let cursor = match &params["cursor"] {
        Value::Null => None,
        Value::String(cursor) => Some(cursor.as_str()),
        _ => return Err(invalid_cursor()),
    };
    let page = match cursor {
        None => 0,
        Some("") if paging.cursors == Cursors::EmptyString => 1,
        Some(cursor) => {
            cursor.strip_prefix("page:").and_then(|n| n.parse().ok()).ok_or_else(invalid_cursor)?
        }
    };
    let pages = items.len().div_ceil(paging.size).max(1);
    let shown = if paging.cursors == Cursors::Endless { page % pages } else { page };
    if shown >= pages {
        return Err(invalid_cursor());
    }
    let start = shown * paging.size;
    let end = start.saturating_add(paging.size).min(items.len());
    let next = match paging.cursors {
        Cursors::Endless => Some(page + 1),
        Cursors::Looping if page + 1 == pages => Some(1.min(pages - 1)),
        _ => (page + 1 < pages).then_some(page + 1),
    };
    let mut result = json!({key: items[start..end]});
    if let Some(next) = next {
        result["nextCursor"] = match paging.cursors {
            Cursors::EmptyString if next == 1 => "".into(),
            _ => format!("page:{next}").into(),
        };
    }
    Ok(result)
}

fn invalid_cursor() -> Refusal {
    Refusal::new(INVALID_PARAMS, "Invalid cursor")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(cursors: Cursors, steps: usize) -> Vec<(Value, Value)> {
        let items: Vec<Value> = (0..5).map(Value::from).collect();
        let paging = Paging { size: 2, cursors };
        let mut params = json!({});
        let mut seen = Vec::new();
        for _ in 0..steps {
            let result = cut_page(paging, "xs", &items, &params).unwrap();
            seen.push((result["xs"].clone(), result["nextCursor"].clone()));
            if result["nextCursor"].is_null() {
                break;
            }
            params = json!({"cursor": result["nextCursor"]});
        }
        seen
    }

    #[test]
    fn plain_cursors_end() {
        let pages = walk(Cursors::Plain, 9);
        assert_eq!(pages.len(), 3);
        assert_eq!(pages[2], (json!([4]), Value::Null));
    }

    // PA-02
    #[test]
    fn empty_string_leads_to_the_second_page() {
        let pages = walk(Cursors::EmptyString, 9);
        assert_eq!(pages[0], (json!([0, 1]), json!("")));
        assert_eq!(pages.len(), 3);
    }

    #[test]
    fn looping_and_endless_never_end() {
        let looping = walk(Cursors::Looping, 7);
        assert_eq!(looping.len(), 7);
        assert_eq!(looping[0].1, looping[2].1);
        let endless = walk(Cursors::Endless, 7);
        assert_eq!(endless.len(), 7);
        let mut cursors: Vec<_> = endless.iter().map(|(_, c)| c.to_string()).collect();
        cursors.dedup();
        assert_eq!(cursors.len(), 7);
        assert_eq!(endless[3].0, json!([0, 1]));
    }

    // PA-03
    #[test]
    fn a_foreign_cursor_is_invalid_params() {
        let paging = Paging { size: 2, cursors: Cursors::Plain };
        for cursor in [json!("page:9"), json!("other"), json!(""), json!(1)] {
            let refusal = cut_page(paging, "xs", &[], &json!({"cursor": cursor})).unwrap_err();
            assert_eq!(refusal.code, INVALID_PARAMS);
        }
    }
}
