//! `libnvidia-ml.so.1`: sensors that stand still, counters that count calls.

use crate::{
    cuda::{self, export, put},
    limits,
    speed::{Moment, Resource},
    state::{OK, State, call},
};
use nvml_wrapper_sys::bindings::{
    nvmlConfComputeSystemState_t, nvmlEventData_t, nvmlEventTypeXidCriticalError, nvmlFieldValue_t,
    nvmlGpuFabricInfo_v3_t, nvmlPciInfo_t, nvmlProcessInfo_t,
    nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE, nvmlReturn_enum_NVML_ERROR_NO_PERMISSION,
    nvmlReturn_enum_NVML_ERROR_NOT_FOUND, nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED,
    nvmlReturn_enum_NVML_ERROR_TIMEOUT,
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
const ARGUMENT_VERSION_MISMATCH: c_int =
    nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH as c_int;
const TIMEOUT: c_int = nvmlReturn_enum_NVML_ERROR_TIMEOUT as c_int;

/// A handle is this and the bus's number, which is one more than the device's ordinal.
const BUS: usize = 0x5e00;

/// A state of a device that a script plants.
fn told(state: &State, device: Sensor, what: &str) -> Option<c_uint> {
    state.script.planted.of(ordinal(device), what)
}

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
    nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut Sensor) |state| {
        let wanted = CStr::from_ptr(uuid).to_string_lossy().into_owned();
        let is_its = |gpu: &c_int| {
            let byte = cuda::uuid(state, *gpu)[0];
            wanted.starts_with(&format!("MIG-{byte:02x}{byte:02x}{byte:02x}{byte:02x}-"))
        };
        let Some(gpu) = (0..state.script.devices).find(is_its) else { return NOT_FOUND };
        device.write((BUS + 1 + gpu as usize) as Sensor);
        OK
    }
    nvmlDeviceGetPciInfo_v3(device: Sensor, info: *mut nvmlPciInfo_t) |state| {
        // An H200's number, so that the way from the bus to a part is walked.
        (*info).pciDeviceId = told(state, device, "pci").unwrap_or(0x2335) << 16 | 0x10de;
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
    nvmlDeviceGetEnforcedPowerLimit(device: Sensor, milliwatts: *mut c_uint) |state| {
        let limit = limits::of(ordinal(device)).power;
        milliwatts.write(told(state, device, "power").unwrap_or(limit));
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
    nvmlDeviceGetEccMode(device: Sensor, current: *mut c_uint, pending: *mut c_uint) |state| {
        let is_on = told(state, device, "ecc").unwrap_or(1);
        current.write(is_on);
        pending.write(is_on);
        OK
    }
    nvmlDeviceGetComputeRunningProcesses_v3(
        device: Sensor, count: *mut c_uint, _infos: *mut nvmlProcessInfo_t
    ) |state| {
        let Some(processes) = told(state, device, "processes") else { return NOT_SUPPORTED };
        // Who asks for the number gives no room for more.
        count.write(processes);
        if processes == 0 { OK } else { INSUFFICIENT_SIZE }
    }
    nvmlDeviceGetVbiosVersion(device: Sensor, text: *mut c_char, length: c_uint) |state| {
        let version = told(state, device, "vbios").map_or("stub".into(), |it| it.to_string());
        put(&version, text, length as usize)
    }
    nvmlDeviceGetUUID(device: Sensor, text: *mut c_char, length: c_uint) |state| {
        let Some(serial) = &state.script.serial else { return NOT_SUPPORTED };
        put(&format!("GPU-{serial}-{}", ordinal(device)), text, length as usize)
    }
    nvmlDeviceGetSerial(device: Sensor, text: *mut c_char, length: c_uint) |state| {
        let Some(serial) = &state.script.serial else { return NOT_SUPPORTED };
        put(&format!("{serial}{}", ordinal(device)), text, length as usize)
    }
    nvmlDeviceGetApplicationsClock(device: Sensor, _kind: c_int, clock: *mut c_uint) |state| {
        clock.write(told(state, device, "application").unwrap_or(1_000));
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
        device: Sensor, kind: c_int, _counter: c_int, count: *mut u64
    ) |state| {
        // One corrected error for each launch, none that is not but those that are planted.
        let planted = told(state, device, "ecc_errors").unwrap_or(0);
        count.write(if kind == 0 { state.launches } else { planted.into() });
        OK
    }
    nvmlDeviceGetRemappedRows(
        device: Sensor, corrected: *mut c_uint, uncorrected: *mut c_uint,
        pending: *mut c_uint, failure: *mut c_uint
    ) |state| {
        for count in [corrected, uncorrected] { count.write(0); }
        pending.write(told(state, device, "remap_pending").unwrap_or(0));
        failure.write(told(state, device, "remap_failed").unwrap_or(0));
        OK
    }
    nvmlDeviceGetPcieReplayCounter(device: Sensor, count: *mut c_uint) |state| {
        count.write(told(state, device, "replays").unwrap_or(0));
        OK
    }
    nvmlDeviceGetCurrPcieLinkGeneration(device: Sensor, value: *mut c_uint) |state| {
        value.write(told(state, device, "generation").unwrap_or(5));
        OK
    }
    nvmlDeviceGetCurrPcieLinkWidth(device: Sensor, value: *mut c_uint) |state| {
        value.write(told(state, device, "lanes").unwrap_or(16));
        OK
    }
    nvmlDeviceGetMaxPcieLinkGeneration(device: Sensor, value: *mut c_uint) |state| {
        value.write(told(state, device, "generation_most").unwrap_or(5));
        OK
    }
    nvmlDeviceGetMaxPcieLinkWidth(device: Sensor, value: *mut c_uint) |state| {
        value.write(told(state, device, "lanes_most").unwrap_or(16));
        OK
    }
    nvmlDeviceGetNvLinkState(device: Sensor, link: c_uint, active: *mut c_uint) |state| {
        let Some(up) = told(state, device, "nvlinks") else { return NOT_SUPPORTED };
        active.write(u32::from(link < up));
        OK
    }
    nvmlDeviceGetNvLinkErrorCounter(
        device: Sensor, link: c_uint, counter: c_int, count: *mut u64
    ) |state| {
        let Some(errors) = told(state, device, "nvlink_errors") else { return NOT_SUPPORTED };
        // All of them are replays of the first link.
        count.write(if link == 0 && counter == 0 { errors.into() } else { 0 });
        OK
    }
    nvmlDeviceGetMigMode(device: Sensor, current: *mut c_uint, pending: *mut c_uint) |state| {
        let Some(mode) = told(state, device, "migmode") else { return NOT_SUPPORTED };
        current.write(mode);
        pending.write(mode);
        OK
    }
    nvmlDeviceGetVirtualizationMode(device: Sensor, kind: *mut c_uint) |state| {
        // NVML_GPU_VIRTUALIZATION_MODE_VGPU.
        kind.write(if told(state, device, "vgpu") == Some(1) { 2 } else { 0 });
        OK
    }
    nvmlSystemGetConfComputeState(state_of: *mut nvmlConfComputeSystemState_t) |state| {
        let Some(is_on) = state.script.planted.of(0, "confidential") else { return NOT_SUPPORTED };
        (*state_of).ccFeature = is_on;
        OK
    }
    nvmlDeviceGetGpuFabricInfoV(device: Sensor, info: *mut nvmlGpuFabricInfo_v3_t) |state| {
        let Some(fabric) = state.script.planted.fabric(ordinal(device)) else {
            return NOT_SUPPORTED;
        };
        let third = std::mem::size_of::<nvmlGpuFabricInfo_v3_t>() as c_uint | 3 << 24;
        if (*info).version != third { return ARGUMENT_VERSION_MISMATCH; }
        (*info).clusterUuid = [fabric.cluster; 16];
        (*info).status = fabric.status;
        (*info).cliqueId = fabric.clique;
        (*info).state = fabric.state;
        (*info).healthMask = fabric.mask;
        (*info).healthSummary = fabric.summary;
        OK
    }
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
