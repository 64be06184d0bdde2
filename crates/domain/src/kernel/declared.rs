//! How the parameters of kernels are declared: each struct with its layout, and the set of all.

/// Declares [`Params`], and how each struct is converted to and from them.
macro_rules! closed_set {
    ($($(#[$meta:meta])* $name:ident($type:ident),)*) => {
        /// The parameters of a launch: one struct for each kind of operation.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Params {
            /// A launch that takes none.
            None,
            $($(#[$meta])* $name($type),)*
        }

        impl Params {
            /// As a GPU's launch takes them.
            pub fn bytes(&self) -> &[u8] {
                match self {
                    Params::None => &[],
                    $(Params::$name(params) => bytemuck::bytes_of(params),)*
                }
            }

            /// The struct's name, as `kernels/include/params.h` has it.
            pub fn struct_name(&self) -> &'static str {
                match self {
                    Params::None => "no parameters",
                    $(Params::$name(_) => stringify!($type),)*
                }
            }

            /// Whether both are of the same kind, whatever their values.
            pub fn is_kind_of(&self, other: &Params) -> bool {
                std::mem::discriminant(self) == std::mem::discriminant(other)
            }

            /// Zeros of every kind, for tests of what each operation takes.
            pub fn zeros() -> Vec<Params> {
                vec![Params::None, $(Params::$name($type::zeroed()),)*]
            }
        }

        $(
            impl From<$type> for Params {
                fn from(params: $type) -> Params {
                    Params::$name(params)
                }
            }

            impl<'p> TryFrom<&'p Params> for &'p $type {
                type Error = OtherOperation;
                fn try_from(params: &'p Params) -> Result<&'p $type, OtherOperation> {
                    match params {
                        Params::$name(params) => Ok(params),
                        _ => Err(OtherOperation),
                    }
                }
            }
        )*
    };
}

/// Declares structs that kernels take, and [`layouts`], by which a test compares each of them with
/// its namesake in `kernels/include/params.h`.
macro_rules! shared_with_kernels {
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $type,)*
            }
        )*

        /// Size in bytes of every struct that kernels take, and the offset of each of its fields.
        pub fn layouts() -> Vec<Layout> {
            vec![$(Layout {
                name: stringify!($name),
                size: size_of::<$name>(),
                offsets: vec![$((stringify!($field), offset_of!($name, $field)),)*],
            },)*]
        }
    };
}

pub(super) use closed_set;
pub(super) use shared_with_kernels;
