//! Runs random sequences of changes through several handles, and compares the result with a plain
//! map.

use std::collections::BTreeMap;

use bowline_store::{Precondition, Version};
use proptest::prelude::*;

use crate::contract::StoreHandles;
use crate::key;

/// One step of a sequence.
#[derive(Clone, Debug)]
enum Step {
    Put { hand: usize, id: usize, value: u8, expect: ExpectedVersion },
    Remove { hand: usize, id: usize, expect: ExpectedVersion },
    Look { hand: usize, id: usize },
}

/// The precondition of a step, perhaps from an older read.
#[derive(Clone, Copy, Debug)]
enum ExpectedVersion {
    Anything,
    Nothing,
    /// The version that was returned this many changes ago, of any key.
    Ago(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let seen = prop_oneof![
        1 => Just(ExpectedVersion::Anything),
        1 => Just(ExpectedVersion::Nothing),
        3 => (0_usize..4).prop_map(ExpectedVersion::Ago),
    ];
    let at = (0_usize..2, 0_usize..3);
    prop_oneof![
        4 => (at.clone(), any::<u8>(), seen.clone())
            .prop_map(|((hand, id), value, expect)| Step::Put { hand, id, value, expect }),
        2 => (at.clone(), seen).prop_map(|((hand, id), expect)| Step::Remove { hand, id, expect }),
        1 => at.prop_map(|(hand, id)| Step::Look { hand, id }),
    ]
}

/// Runs a sequence against a store and a map.
async fn play(hands: StoreHandles, history: &[Step]) -> Result<(), TestCaseError> {
    let mut map: BTreeMap<usize, (u8, Version)> = BTreeMap::new();
    let mut given: Vec<Version> = Vec::new();
    let ids = ["a", "b", "c"].map(key);
    for step in history {
        let expected = |seen: ExpectedVersion| match seen {
            ExpectedVersion::Anything => Precondition::Any,
            ExpectedVersion::Nothing => Precondition::Absent,
            ExpectedVersion::Ago(ago) => Precondition::AtVersion(
                given.len().checked_sub(ago + 1).map_or(Version(1 << 60), |at| given[at]),
            ),
        };
        let fits = |id: usize, expect: Precondition| match expect {
            Precondition::Any => true,
            Precondition::Absent => !map.contains_key(&id),
            Precondition::AtVersion(version) => map.get(&id).is_some_and(|(_, at)| *at == version),
        };
        match *step {
            Step::Put { hand, id, value, expect } => {
                let expect = expected(expect);
                let fits = fits(id, expect);
                let version = hands[hand].put(&ids[id], &[value], expect).await.unwrap();
                prop_assert_eq!(version.is_some(), fits);
                if let Some(version) = version {
                    prop_assert!(given.iter().all(|earlier| *earlier < version), "{version:?} is not new");
                    given.push(version);
                    map.insert(id, (value, version));
                }
            }
            Step::Remove { hand, id, expect } => {
                let expect = expected(expect);
                let fits = fits(id, expect) && map.contains_key(&id);
                prop_assert_eq!(hands[hand].remove(&ids[id], expect).await.unwrap(), fits);
                if fits {
                    map.remove(&id);
                }
            }
            Step::Look { hand, id } => {
                let seen = hands[hand].get(&ids[id]).await.unwrap().map(|it| (it.value[0], it.version));
                prop_assert_eq!(seen, map.get(&id).copied());
            }
        }
    }
    let listed = hands[1].list("test").await.unwrap();
    let listed: Vec<_> =
        listed.iter().map(|(key, it)| (key.id.as_str(), (it.value[0], it.version))).collect();
    let kept: Vec<_> = map.iter().map(|(id, it)| (ids[*id].id.as_str(), *it)).collect();
    prop_assert_eq!(listed, kept);
    Ok(())
}

/// Compares many sequences, each in a new store with two handles.
pub(crate) fn check(cases: u32, make: impl AsyncFn() -> StoreHandles) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(settings, |(history in proptest::collection::vec(step(), 1..40))| {
        runtime.block_on(async { play(make().await, &history).await })?;
    });
}
