//! Owns how a setting that is one of several words is defined: once, with the word for each value.
//! Its names, its reader and its schema come from that definition.

#[cfg(feature = "files")]
use serde_json::{Value, json};

#[cfg(feature = "files")]
use crate::keys::lines;

/// A type whose values are words in a file. [`words!`] implements it.
#[cfg(feature = "files")]
pub(crate) trait Words: Copy + 'static {
    /// The words, in the order of their definition.
    const WORDS: &'static [&'static str];

    /// The documentation of each of [`Words::WORDS`].
    const DOCS: &'static [&'static [&'static str]];

    fn find(word: &str) -> Option<Self>;

    fn schema() -> Value {
        if Self::DOCS.iter().all(|doc| doc.is_empty()) {
            return json!({ "type": "string", "enum": Self::WORDS });
        }
        let described = |(word, doc): (&&str, &&[&str])| json!({ "type": "string", "const": word, "description": lines(doc) });
        json!({ "oneOf": Self::WORDS.iter().zip(Self::DOCS).map(described).collect::<Vec<_>>() })
    }
}

/// Formats words for a message: `"a", "b" or "c"`.
#[cfg(feature = "files")]
pub(crate) fn list_words(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let (last, others) = quoted.split_last().expect("there is a choice");
    format!("{} or {last}", others.join(", "))
}

/// Defines an enumeration and the word for each of its values:
///
/// ```text
/// words! {
///     /// The description of the setting.
///     #[derive(Default)]
///     pub enum Example {
///         /// The description of the value.
///         #[default]
///         First = "first",
///         Second = "second",
///     }
/// }
/// ```
macro_rules! words {
    (
        $(#[$about:meta])*
        $vis:vis enum $Type:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[default $($default:tt)?])?
                $Value:ident = $word:literal,
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $Type {
            $($(#[doc = $doc])* $(#[default $($default)?])? $Value,)+
        }

        impl $Type {
            /// Every value, in the order of the definition.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$Value),+];

            /// Returns its name in files.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Value => $word,)+
                }
            }

            /// Returns the value of that name.
            $vis fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == name)
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        #[cfg(feature = "files")]
        impl $crate::words::Words for $Type {
            const WORDS: &'static [&'static str] = &[$($word),+];
            const DOCS: &'static [&'static [&'static str]] = &[$(&[$($doc),*]),+];

            fn find(word: &str) -> Option<Self> {
                Self::from_name(word)
            }
        }
    };
}

pub(crate) use words;

#[cfg(all(test, feature = "files"))]
mod tests {
    use super::*;
    use crate::{
        ElicitationPolicy, HookEvent, KeyLocation, Protocol, SamplingApi, SamplingPolicy, Share, TokenAuth,
    };

    #[test]
    fn words_are_read_as_they_are_written() {
        fn check<T: Words + PartialEq + std::fmt::Debug + std::fmt::Display>(all: &[T], unknown: &[&str]) {
            let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
            assert_eq!(shown, T::WORDS);
            let found: Vec<Option<T>> = T::WORDS.iter().map(|word| T::find(word)).collect();
            assert_eq!(found, all.iter().copied().map(Some).collect::<Vec<_>>());
            for word in unknown {
                assert_eq!(T::find(word), None, "{word}");
            }
        }
        check(&ElicitationPolicy::ALL, &["accept"]);
        check(&HookEvent::ALL, &["", "Connected", "session-lost", "session_lost ", "all"]);
        check(&KeyLocation::ALL, &[""]);
        check(&Protocol::ALL, &[""]);
        check(&SamplingApi::ALL, &["OpenAI"]);
        check(&SamplingPolicy::ALL, &[""]);
        check(&Share::ALL, &["none"]);
        check(&TokenAuth::ALL, &[""]);
        assert_eq!(list_words(ElicitationPolicy::WORDS), "\"ask\", \"decline\" or \"cancel\"");
        assert_eq!(list_words(SamplingApi::WORDS), "\"openai\" or \"anthropic\"");
    }
}
