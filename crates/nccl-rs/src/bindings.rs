//! What this crate declares of NCCL, against nccl.h of 2.28 by the crate cudarc. For tests.

use crate::{
    communicator::SYMMETRIC,
    table::{Config, Table},
    types::{DataType, IN_PROGRESS, Reduction, SUCCESS, UniqueId},
};
use cudarc::nccl::sys;
use fizeau_signatures::{Passed, Signature, Table as _, declared, faults};
use std::{ffi::c_int, mem::offset_of};

fn headers() -> Vec<(&'static str, Signature)> {
    declared! { [unsafe fn] cudarc::nccl::sys:
        ncclGetVersion(_) ncclGetUniqueId(_) ncclGetErrorString(_) ncclGetLastError(_)
        ncclCommInitRankConfig(_, _, _, _, _) ncclCommInitRank(_, _, _, _)
        ncclCommInitAll(_, _, _) ncclCommFinalize(_) ncclCommDestroy(_) ncclCommAbort(_)
        ncclCommGetAsyncError(_, _) ncclCommCount(_, _) ncclCommUserRank(_, _)
        ncclCommRegister(_, _, _, _) ncclCommDeregister(_, _)
        ncclCommWindowRegister(_, _, _, _, _) ncclCommWindowDeregister(_, _) ncclMemAlloc(_, _)
        ncclMemFree(_) ncclGroupStart() ncclGroupEnd() ncclAllReduce(_, _, _, _, _, _, _)
        ncclReduce(_, _, _, _, _, _, _, _) ncclBroadcast(_, _, _, _, _, _, _)
        ncclAllGather(_, _, _, _, _, _) ncclReduceScatter(_, _, _, _, _, _, _)
        ncclAlltoAll(_, _, _, _, _, _) ncclGather(_, _, _, _, _, _, _)
        ncclScatter(_, _, _, _, _, _, _) ncclSend(_, _, _, _, _, _) ncclRecv(_, _, _, _, _, _)
    }
}

#[test]
fn functions_are_called_as_the_header_declares_them() {
    assert_eq!(faults(&Table::called(), "nccl", &headers()), [""; 0]);
    let mut planted = Table::called();
    let id = planted.iter_mut().find(|(names, _)| names == &["ncclCommInitRank"]);
    id.expect("in the table").1.takes[2] = Passed::Value(64);
    let told = ["ncclCommInitRank: parameter 3 is Value(64), Value(128) by the headers"];
    assert_eq!(faults(&planted, "nccl", &headers()), told);
}

#[test]
fn the_oldest_configuration_is_the_start_of_the_newest() {
    type Newest = sys::ncclConfig_t;
    let ours = [
        offset_of!(Config, size),
        offset_of!(Config, magic),
        offset_of!(Config, version),
        offset_of!(Config, blocking),
        offset_of!(Config, undefined),
    ];
    let newest = [
        offset_of!(Newest, size),
        offset_of!(Newest, magic),
        offset_of!(Newest, version),
        offset_of!(Newest, blocking),
        offset_of!(Newest, cgaClusterSize),
    ];
    assert_eq!(ours, newest);
    assert_eq!(UniqueId::SIZE, size_of::<sys::ncclUniqueId>());
}

#[test]
fn numbers_are_those_of_the_header() {
    use sys::{ncclDataType_t::*, ncclRedOp_t::*, ncclResult_t::*};
    assert_eq!([SUCCESS, IN_PROGRESS], [ncclSuccess as c_int, ncclInProgress as c_int]);
    // A macro of nccl.h, which no crate keeps.
    assert_eq!(SYMMETRIC, 1);
    let types = [
        (DataType::Int8, ncclInt8),
        (DataType::Uint8, ncclUint8),
        (DataType::Int32, ncclInt32),
        (DataType::Uint32, ncclUint32),
        (DataType::Int64, ncclInt64),
        (DataType::Uint64, ncclUint64),
        (DataType::Float16, ncclFloat16),
        (DataType::Float32, ncclFloat32),
        (DataType::Float64, ncclFloat64),
        (DataType::Bfloat16, ncclBfloat16),
        (DataType::Float8E4M3, ncclFloat8e4m3),
        (DataType::Float8E5M2, ncclFloat8e5m2),
    ];
    for (ours, theirs) in types {
        assert_eq!(ours as c_int, theirs as c_int, "{ours:?}");
    }
    let operations = [
        (Reduction::Sum, ncclSum),
        (Reduction::Product, ncclProd),
        (Reduction::Max, ncclMax),
        (Reduction::Min, ncclMin),
        (Reduction::Average, ncclAvg),
    ];
    for (ours, theirs) in operations {
        assert_eq!(ours as c_int, theirs as c_int, "{ours:?}");
    }
}
