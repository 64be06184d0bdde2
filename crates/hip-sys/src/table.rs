//! Tables of functions, each of which a library may lack, and lists of numbers with their names.

use std::ffi::{CStr, c_char, c_int};

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The library does not export the function: it is older or newer than the function.
    #[error("the library has no {call}")]
    NoSymbol {
        /// Name of the function.
        call: &'static str,
    },
    /// The function returned a code other than 0.
    #[error("{call} returned {code}{}", .name.map(|name| format!(" ({name})")).unwrap_or_default())]
    Code {
        /// Name of the function.
        call: &'static str,
        /// What it returned.
        code: c_int,
        /// Name of the code in AMD's headers; `None` for a code that this crate does not know.
        name: Option<&'static str>,
    },
}

/// One function of a library, with its name.
///
/// The type of the function is part of the symbol's, so that the compiler refuses a call by a wrong
/// one:
///
/// ```
/// # use {hip_sys::{Hip, Symbol}, std::ffi::{c_int, c_void}};
/// fn allocate(hip: &Hip) -> Symbol<unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int> {
///     hip.hipMalloc
/// }
/// ```
/// ```compile_fail,E0308
/// # use {hip_sys::{Hip, Symbol}, std::ffi::{c_int, c_void}};
/// fn allocate(hip: &Hip) -> Symbol<unsafe extern "C" fn(*mut *mut c_void, u32) -> c_int> {
///     hip.hipMalloc
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Symbol<F> {
    /// Name that the library exports it by.
    pub name: &'static str,
    /// The function; `None` where the library does not export it.
    pub function: Option<F>,
}

impl<F: Copy> Symbol<F> {
    /// The function.
    ///
    /// # Errors
    ///
    /// [`Error::NoSymbol`] where the library does not export it.
    pub fn get(&self) -> Result<F, Error> {
        self.function.ok_or(Error::NoSymbol { call: self.name })
    }
}

/// A text that a library never frees; `None` for a null pointer.
///
/// # Safety
///
/// Null, or a text that ends with a zero and is never freed.
pub(crate) unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Declares a struct with one [`Symbol`] and one method for each function of a library. Each
/// function is declared once, as the header does; `texts` take a code and return a text.
macro_rules! functions {
    (
        $(#[$meta:meta])*
        $table:ident, $name_of:path:
        $( $(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?); )*
        texts:
        $( $(#[$text_doc:meta])* fn $text:ident(code: c_int); )*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $table {
            $(
                #[doc = concat!("The function `", stringify!($name), "`, for calls by pointer.")]
                pub $name: $crate::table::Symbol<
                    unsafe extern "C" fn($($type),*) -> std::ffi::c_int
                >,
            )*
            $(
                #[doc = concat!("The function `", stringify!($text), "`, for calls by pointer.")]
                pub $text: $crate::table::Symbol<
                    unsafe extern "C" fn(std::ffi::c_int) -> *const std::ffi::c_char
                >,
            )*
        }

        impl $table {
            /// Opens the first of `paths` that the loader accepts, and looks all functions up in it.
            ///
            /// # Errors
            ///
            /// Where no path can be opened. A function that the library lacks is an error only
            /// where it is called.
            pub fn open<P: AsRef<std::ffi::OsStr>>(
                paths: impl IntoIterator<Item = P>,
            ) -> Result<$table, $crate::OpenError> {
                let library = $crate::Library::open(paths)?;
                // SAFETY: AMD's headers declare these types for these names, and a library stays
                // open without end.
                Ok(unsafe { $table::from_symbols(|symbol| library.address(symbol)) })
            }

            /// Makes the table from addresses that the caller finds, null for a function that is
            /// not there.
            ///
            /// # Safety
            ///
            /// Each address is of the function that AMD's headers declare by that name, and stays
            /// valid as long as the table or a copy of it is used.
            pub unsafe fn from_symbols(
                mut address: impl FnMut(&'static str) -> *const std::ffi::c_void,
            ) -> $table {
                $table {
                    $( $name: $crate::table::Symbol {
                        name: stringify!($name),
                        // SAFETY: the caller's promise; a null pointer is `None` of an optional
                        // function.
                        function: unsafe { std::mem::transmute::<
                            *const std::ffi::c_void,
                            Option<unsafe extern "C" fn($($type),*) -> std::ffi::c_int>,
                        >(address(stringify!($name))) },
                    }, )*
                    $( $text: $crate::table::Symbol {
                        name: stringify!($text),
                        // SAFETY: as above.
                        function: unsafe { std::mem::transmute::<
                            *const std::ffi::c_void,
                            Option<unsafe extern "C" fn(std::ffi::c_int) -> *const std::ffi::c_char>,
                        >(address(stringify!($text))) },
                    }, )*
                }
            }

            /// Names of the functions that the library does not export.
            pub fn missing(&self) -> Vec<&'static str> {
                let all = [
                    $( (self.$name.name, self.$name.function.is_none()), )*
                    $( (self.$text.name, self.$text.function.is_none()), )*
                ];
                all.into_iter().filter(|(_, is_missing)| *is_missing).map(|(name, _)| name).collect()
            }

            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// Where the library lacks the function, or it returns a code other than 0.
                ///
                /// # Safety
                ///
                /// The arguments are what AMD's documentation of the function asks for.
                pub unsafe fn $name(&self, $($arg: $type),*) -> Result<(), $crate::Error> {
                    let function = self.$name.get()?;
                    // SAFETY: the caller's promise.
                    match unsafe { function($($arg),*) } {
                        0 => Ok(()),
                        code => {
                            let name = $name_of(code);
                            Err($crate::Error::Code { call: stringify!($name), code, name })
                        }
                    }
                }
            )*
            $(
                $(#[$text_doc])*
                ///
                /// # Errors
                ///
                /// Where the library lacks the function.
                pub fn $text(
                    &self,
                    code: std::ffi::c_int,
                ) -> Result<Option<String>, $crate::Error> {
                    let function = self.$text.get()?;
                    // SAFETY: the function takes any number, and returns null or a constant text.
                    Ok(unsafe { $crate::table::text(function(code)) })
                }
            )*
        }

        #[cfg(test)]
        impl $table {
            /// What the declarations above say, in the words of the files in `abi/`.
            pub(crate) fn signatures() -> Vec<String> {
                use $crate::abi::{Kind, signature};
                vec![
                    $( signature(
                        stringify!($name),
                        vec![$(<$type as Kind>::kind()),*],
                        std::ffi::c_int::kind(),
                    ), )*
                    $( signature(
                        stringify!($text),
                        vec![std::ffi::c_int::kind()],
                        <*const std::ffi::c_char as Kind>::kind(),
                    ), )*
                ]
            }
        }
    };
}
pub(crate) use functions;

/// Declares the numbers of C enumerations and macros as plain constants, each once.
macro_rules! constants {
    ($(
        $(#[$meta:meta])*
        $type:ident = $integer:ty {
            $( $name:ident = $value:literal: $doc:literal, )*
        }
    )*) => {
        $(
            $(#[$meta])*
            pub type $type = $integer;
            $( #[doc = $doc] pub const $name: $type = $value; )*
        )*

        #[cfg(test)]
        pub(crate) const CONSTANTS: &[(&str, i64)] =
            &[$( $( (stringify!($name), $name as i64), )* )*];
    };
}
pub(crate) use constants;

/// Declares the codes that functions return as plain constants, and a function that names them.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        $type:ident, $name_of:ident:
        $( $name:ident = $value:literal: $doc:literal, )*
    ) => {
        $(#[$meta])*
        pub type $type = std::ffi::c_int;
        $( #[doc = $doc] pub const $name: $type = $value; )*

        #[doc = concat!("Name of a `", stringify!($type), "`; `None` for an unknown one.")]
        pub fn $name_of(code: $type) -> Option<&'static str> {
            match code {
                $( $name => Some(stringify!($name)), )*
                _ => None,
            }
        }

        #[cfg(test)]
        pub(crate) const CODES: &[(&str, i64)] = &[$( (stringify!($name), $name as i64), )*];
    };
}
pub(crate) use codes;

/// Declares handles: pointers to objects whose layout the library alone knows.
macro_rules! handles {
    ($( $(#[$doc:meta])* $handle:ident = *mut $object:ident; )*) => { $(
        $(#[$doc])*
        pub type $handle = *mut $object;

        #[doc = concat!("What a [`", stringify!($handle), "`] points to. Opaque.")]
        #[derive(Debug)]
        #[repr(C)]
        pub struct $object {
            _opaque: [u8; 0],
            _marker: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }

        #[cfg(test)]
        impl $crate::abi::Kind for $object {
            fn kind() -> String {
                stringify!($object).into()
            }
        }
    )* };
}
pub(crate) use handles;
