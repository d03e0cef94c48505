//! Defines [`named!`]: enumerations whose values have names on the wire.

/// Defines an enumeration and the name of each of its values:
///
/// ```text
/// named! {
///     /// The description of the type.
///     pub enum Example {
///         /// The description of the value.
///         First = "first",
///         Second = "second",
///     }
/// }
/// ```
macro_rules! named {
    (
        $(#[$about:meta])*
        $vis:vis enum $Type:ident {
            $($(#[$doc:meta])* $Value:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $Type {
            $($(#[$doc])* $Value,)+
        }

        impl $Type {
            /// All values, in the order of the definition.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$Value),+];

            /// The name of the value on the wire.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Value => $name,)+
                }
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use named;
