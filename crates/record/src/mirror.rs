//! Conversion between the domain's types and the wire types of a version of the format, and the
//! few types that all versions share with the domain.
//!
//! A version has a wire type for every struct, so that the domain can change without the format,
//! and the format without the domain. [`mirror!`] writes the conversions of a wire type that has
//! the fields of its domain type. It lists every field and uses no `..`: a field that is added to
//! the domain does not compile until each version says what becomes of it.

use fizeau_domain::{
    case::{
        Access, AttentionKind, Buffers, CacheSide, Collective, Contents, Fused, HostMemory,
        Instruction, KernelName, Launching, Layout, Lengths, Mask, MemoryPattern, Place,
        Recurrence, Routing, StreamOperation, Transfer,
    },
    dtype::Dtype,
    units::{Bytes, Celsius, Flops, Joules, Megahertz, Seconds, Watts},
};
use std::collections::BTreeMap;

/// A wire type: it converts from and to the domain type that it stands for.
pub trait Mirror: Sized {
    /// The domain type.
    type Domain;

    /// What is written for a value of the domain.
    fn from_domain(domain: &Self::Domain) -> Self;

    /// The value of the domain for what was read.
    fn into_domain(self) -> Self::Domain;
}

/// The types that all versions share with the domain. Each is a single number, name or text in
/// JSON, which no version could lay out in another way; of masks, some are a name with a number.
/// Case ids and suites use the same names, so
/// that no version could rename them alone. A new name changes docs/record-v1.schema.json.
macro_rules! shared {
    ($($type:ty),+ $(,)?) => {$(
        impl Mirror for $type {
            type Domain = $type;

            fn from_domain(domain: &$type) -> $type {
                domain.clone()
            }

            fn into_domain(self) -> $type {
                self
            }
        }
    )+};
}

// Texts and numbers. `[u32; 2]` is a pair, the map a number for each element type.
shared!(String, bool, u32, u64, f64, [u32; 2], BTreeMap<Dtype, f64>);
// Quantities, each a number in the unit of its type.
shared!(Bytes, Celsius, Flops, Joules, Megahertz, Seconds, Watts);
// Names.
shared!(Dtype, KernelName, StreamOperation, CacheSide, Contents, Layout, Access, Transfer);
shared!(
    HostMemory,
    Launching,
    Fused,
    Recurrence,
    Routing,
    AttentionKind,
    Mask,
    Lengths,
    Collective,
    Place,
    Buffers
);
shared!(MemoryPattern, Instruction);

impl<W: Mirror> Mirror for Option<W> {
    type Domain = Option<W::Domain>;

    fn from_domain(domain: &Self::Domain) -> Self {
        domain.as_ref().map(W::from_domain)
    }

    fn into_domain(self) -> Self::Domain {
        self.map(W::into_domain)
    }
}

impl<W: Mirror> Mirror for Vec<W> {
    type Domain = Vec<W::Domain>;

    fn from_domain(domain: &Self::Domain) -> Self {
        domain.iter().map(W::from_domain).collect()
    }

    fn into_domain(self) -> Self::Domain {
        self.into_iter().map(W::into_domain).collect()
    }
}

impl<W: Mirror> Mirror for Box<W> {
    type Domain = Box<W::Domain>;

    fn from_domain(domain: &Self::Domain) -> Self {
        Box::new(W::from_domain(domain))
    }

    fn into_domain(self) -> Self::Domain {
        Box::new((*self).into_domain())
    }
}

/// Implements [`Mirror`] for a wire type that has the fields (or variants) of its domain type, all
/// of which are listed. A field after a semicolon exists on the wire only, with a constant value.
macro_rules! mirror {
    (enum $wire:ident of $domain:path {
        $($variant:ident $(($inner:ident))? $({ $($field:ident),+ })?),+ $(,)?
    }) => {
        impl $crate::mirror::Mirror for $wire {
            type Domain = $domain;

            fn from_domain(domain: &$domain) -> $wire {
                type Domain = $domain;
                match domain {
                    $(Domain::$variant $(($inner))? $({ $($field),+ })? => $wire::$variant
                        $(($crate::mirror::Mirror::from_domain($inner)))?
                        $({ $($field: $crate::mirror::Mirror::from_domain($field)),+ })?,)+
                }
            }

            fn into_domain(self) -> $domain {
                type Domain = $domain;
                match self {
                    $($wire::$variant $(($inner))? $({ $($field),+ })? => Domain::$variant
                        $(($crate::mirror::Mirror::into_domain($inner)))?
                        $({ $($field: $crate::mirror::Mirror::into_domain($field)),+ })?,)+
                }
            }
        }
    };
    ($wire:ident of $domain:path { $($field:ident),+ $(; $own:ident = $value:expr)? $(,)? }) => {
        impl $crate::mirror::Mirror for $wire {
            type Domain = $domain;

            fn from_domain(domain: &$domain) -> $wire {
                let $domain { $($field),+ } = domain;
                $wire {
                    $($own: $value,)?
                    $($field: $crate::mirror::Mirror::from_domain($field)),+
                }
            }

            fn into_domain(self) -> $domain {
                let $wire { $($own: _,)? $($field),+ } = self;
                $domain { $($field: $crate::mirror::Mirror::into_domain($field)),+ }
            }
        }
    };
}
pub(super) use mirror;
