//! `libnvidia-ml.so.1`: sensors that stand still, counters that count calls.

use crate::{
    cuda::{export, put},
    limits,
    speed::{Moment, Resource},
    state::{OK, State, call},
};
use nvml_wrapper_sys::bindings::{
    nvmlEventData_t, nvmlEventTypeXidCriticalError, nvmlFieldValue_t, nvmlPciInfo_t,
    nvmlProcessInfo_t, nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE,
    nvmlReturn_enum_NVML_ERROR_NO_PERMISSION, nvmlReturn_enum_NVML_ERROR_NOT_FOUND,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED, nvmlReturn_enum_NVML_ERROR_TIMEOUT,
};
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    thread,
    time::Duration,
};

type Sensor = *mut c_void;

const NOT_SUPPORTED: c_int = nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as c_int;
const NOT_FOUND: c_int = nvmlReturn_enum_NVML_ERROR_NOT_FOUND as c_int;
const INSUFFICIENT_SIZE: c_int = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as c_int;
/// What a library refuses to a user who may not do it.
pub const NO_PERMISSION: c_int = nvmlReturn_enum_NVML_ERROR_NO_PERMISSION as c_int;
const TIMEOUT: c_int = nvmlReturn_enum_NVML_ERROR_TIMEOUT as c_int;

/// A handle is this and the bus's number, which is one more than the device's ordinal.
const BUS: usize = 0x5e00;

fn ordinal(device: Sensor) -> c_int {
    (device as usize).saturating_sub(BUS + 1) as c_int
}

export! {
    nvmlInit_v2() |_state| { OK }
    nvmlSystemGetDriverVersion(text: *mut c_char, length: c_uint) |_state| {
        put("stub", text, length as usize)
    }
    nvmlDeviceGetHandleByPciBusId_v2(place: *const c_char, device: *mut Sensor) |_state| {
        let place = CStr::from_ptr(place).to_string_lossy().into_owned();
        let Some(bus) = place.strip_prefix("0000:").and_then(|rest| rest.get(..2)) else {
            return NOT_FOUND;
        };
        let Ok(bus) = usize::from_str_radix(bus, 16) else { return NOT_FOUND };
        device.write((BUS + bus) as Sensor);
        OK
    }
    nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut Sensor) |_state| {
        if !CStr::from_ptr(uuid).to_bytes().starts_with(b"MIG-57575757-") { return NOT_FOUND; }
        device.write((BUS + 1) as Sensor);
        OK
    }
    nvmlDeviceGetPciInfo_v3(_device: Sensor, info: *mut nvmlPciInfo_t) |_state| {
        // An H200's number, so that the way from the bus to a part is walked.
        (*info).pciDeviceId = 0x2335_10de;
        OK
    }
    nvmlDeviceGetClockInfo(device: Sensor, kind: c_int, megahertz: *mut c_uint) |state| {
        // NVML_CLOCK_MEM is the only one that is not the units'.
        let moment = Moment { device: ordinal(device), ..Moment::default() };
        let speed = state.script.speeds.speed(Resource::Clock, moment, None);
        megahertz.write(if kind == 2 { 1_000 } else { (1_000.0 * speed) as c_uint });
        OK
    }
    nvmlDeviceGetPowerUsage(device: Sensor, milliwatts: *mut c_uint) |_state| {
        milliwatts.write(limits::of(ordinal(device)).power / 2);
        OK
    }
    nvmlDeviceGetEnforcedPowerLimit(device: Sensor, milliwatts: *mut c_uint) |_state| {
        milliwatts.write(limits::of(ordinal(device)).power);
        OK
    }
    nvmlDeviceGetPowerManagementLimit(device: Sensor, milliwatts: *mut c_uint) |_state| {
        milliwatts.write(limits::of(ordinal(device)).power);
        OK
    }
    nvmlDeviceGetPowerManagementDefaultLimit(_device: Sensor, milliwatts: *mut c_uint) |_state| {
        milliwatts.write(limits::POWER);
        OK
    }
    nvmlDeviceGetPowerManagementLimitConstraints(
        _device: Sensor, least: *mut c_uint, most: *mut c_uint
    ) |_state| {
        least.write(limits::POWER / 4);
        most.write(limits::POWER);
        OK
    }
    nvmlDeviceSetPowerManagementLimit(device: Sensor, milliwatts: c_uint) |_state| {
        limits::set(ordinal(device), |limits| limits.power = milliwatts)
    }
    nvmlDeviceSetGpuLockedClocks(device: Sensor, _least: c_uint, most: c_uint) |_state| {
        limits::set(ordinal(device), |limits| limits.clock = Some(most))
    }
    nvmlDeviceResetGpuLockedClocks(device: Sensor) |_state| {
        limits::set(ordinal(device), |limits| limits.clock = None)
    }
    nvmlDeviceGetMaxClockInfo(_device: Sensor, _kind: c_int, megahertz: *mut c_uint) |_state| {
        megahertz.write(limits::CLOCK);
        OK
    }
    nvmlDeviceGetEccMode(_device: Sensor, current: *mut c_uint, pending: *mut c_uint) |state| {
        current.write(u32::from(state.script.ecc));
        pending.write(u32::from(state.script.ecc));
        OK
    }
    nvmlDeviceGetComputeRunningProcesses_v3(
        _device: Sensor, count: *mut c_uint, _infos: *mut nvmlProcessInfo_t
    ) |state| {
        let Some(processes) = state.script.processes else { return NOT_SUPPORTED };
        // Who asks for the number gives no room for more.
        count.write(processes);
        if processes == 0 { OK } else { INSUFFICIENT_SIZE }
    }
    nvmlDeviceGetVbiosVersion(_device: Sensor, text: *mut c_char, length: c_uint) |_state| {
        put("stub", text, length as usize)
    }
    nvmlDeviceGetUUID(device: Sensor, text: *mut c_char, length: c_uint) |state| {
        let Some(serial) = &state.script.serial else { return NOT_SUPPORTED };
        put(&format!("GPU-{serial}-{}", ordinal(device)), text, length as usize)
    }
    nvmlDeviceGetSerial(device: Sensor, text: *mut c_char, length: c_uint) |state| {
        let Some(serial) = &state.script.serial else { return NOT_SUPPORTED };
        put(&format!("{serial}{}", ordinal(device)), text, length as usize)
    }
    nvmlDeviceGetApplicationsClock(_device: Sensor, _kind: c_int, clock: *mut c_uint) |_state| {
        clock.write(900);
        OK
    }
    nvmlDeviceGetDefaultApplicationsClock(
        _device: Sensor, _kind: c_int, clock: *mut c_uint
    ) |_state| {
        clock.write(1_000);
        OK
    }
    nvmlDeviceGetTotalEnergyConsumption(_device: Sensor, millijoules: *mut u64) |state| {
        millijoules.write(state.launches);
        OK
    }
    nvmlDeviceGetTemperature(_device: Sensor, _kind: c_int, celsius: *mut c_uint) |_state| {
        celsius.write(1);
        OK
    }
    nvmlDeviceGetCurrentClocksEventReasons(device: Sensor, reasons: *mut u64) |state| {
        let gpu = ordinal(device);
        reasons.write(state.script.reasons(gpu, state.launched_on(gpu)));
        OK
    }
    nvmlDeviceGetTotalEccErrors(
        _device: Sensor, kind: c_int, _counter: c_int, count: *mut u64
    ) |state| {
        // One corrected error for each launch, none that is not.
        count.write(if kind == 0 { state.launches } else { 0 });
        OK
    }
    nvmlDeviceGetRemappedRows(
        _device: Sensor, corrected: *mut c_uint, uncorrected: *mut c_uint,
        pending: *mut c_uint, failure: *mut c_uint
    ) |_state| {
        for count in [corrected, uncorrected, pending, failure] { count.write(0); }
        OK
    }
    nvmlDeviceGetPcieReplayCounter(_device: Sensor, count: *mut c_uint) |_state| {
        count.write(0);
        OK
    }
    nvmlDeviceGetCurrPcieLinkGeneration(_device: Sensor, value: *mut c_uint) |_state| {
        value.write(5);
        OK
    }
    nvmlDeviceGetCurrPcieLinkWidth(_device: Sensor, value: *mut c_uint) |state| {
        value.write(state.script.lanes);
        OK
    }
    nvmlDeviceGetMaxPcieLinkGeneration(_device: Sensor, value: *mut c_uint) |_state| {
        value.write(5);
        OK
    }
    nvmlDeviceGetMaxPcieLinkWidth(_device: Sensor, value: *mut c_uint) |_state| {
        value.write(16);
        OK
    }
    nvmlDeviceGetNvLinkState(_device: Sensor, link: c_uint, active: *mut c_uint) |state| {
        let Some(up) = state.script.nvlinks else { return NOT_SUPPORTED };
        active.write(u32::from(link < up));
        OK
    }
    nvmlDeviceGetNvLinkErrorCounter(
        _device: Sensor, _link: c_uint, _counter: c_int, _count: *mut u64
    ) |_state| { NOT_SUPPORTED }
    nvmlDeviceGetFieldValues(
        _device: Sensor, count: c_int, values: *mut nvmlFieldValue_t
    ) |_state| {
        for at in 0..count as usize { (*values.add(at)).nvmlReturn = NOT_SUPPORTED as c_uint; }
        OK
    }
    nvmlEventSetCreate(set: *mut Sensor) |_state| { set.write(0x5e7 as Sensor); OK }
    nvmlEventSetFree(_set: Sensor) |_state| { OK }
    nvmlDeviceRegisterEvents(_device: Sensor, _kinds: u64, _set: Sensor) |_state| { OK }
}

/// As the vendor documents it; waits outside of the lock that all other calls share.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(
    _set: Sensor,
    event: *mut nvmlEventData_t,
    milliseconds: c_uint,
) -> c_int {
    let told = call("nvmlEventSetWait_v2", |state| match state.faults.pop() {
        Some(fault) => {
            // SAFETY: the caller passes a valid pointer.
            unsafe {
                (*event).eventType = nvmlEventTypeXidCriticalError.into();
                (*event).eventData = fault;
            }
            OK
        }
        None => TIMEOUT,
    });
    if told == TIMEOUT {
        thread::sleep(Duration::from_millis(u64::from(milliseconds)));
    }
    told
}
