//! `libcuda.so.1`.

use crate::{
    cost::{CACHE_BYTES, Cost},
    memory::Owner,
    model::{Call, Library, Parameter},
    perform::perform,
    speed::Resource,
    state::{
        self, CONTEXT, Foreign, Graph, INVALID_DEVICE, INVALID_HANDLE, INVALID_IMAGE,
        INVALID_VALUE, NO_DEVICE, NOT_FOUND, NOT_READY, Node, OK, OUT_OF_MEMORY, State, call, hex,
    },
    visible::{self, Vendor},
};
use std::{
    cell::Cell,
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    slice,
    sync::Arc,
};

type Handle = *mut c_void;

/// Declares the functions: their bodies get the state.
macro_rules! export {
    ($( $(#[$meta:meta])* $name:ident($($arg:ident: $type:ty),*) |$state:ident| $body:block )*) => {
        $(
            #[doc = "As the vendor documents it."]
            $(#[$meta])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
                unsafe fn body($state: &mut State, $($arg: $type),*) -> c_int { $body }
                // SAFETY: the caller passes what the vendor's header asks for.
                call(stringify!($name), |state| unsafe { body(state, $($arg),*) })
            }
        )*
    };
}
pub(crate) use export;

/// Says that this is no driver.
#[unsafe(no_mangle)]
pub extern "C" fn fizeau_stub_driver() -> c_int {
    OK
}

/// The device whose context is current on the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn fizeau_stub_device() -> c_int {
    current_device()
}

/// The speed of the link from a stream's device to another, as a share of what it is without a
/// script.
#[unsafe(no_mangle)]
pub extern "C" fn fizeau_stub_link(stream: Handle, peer: c_int) -> f64 {
    let (state, stream) = (state::state(), stream as usize);
    match state.device_of(stream) == peer {
        true => 1.0,
        false => state.speed(Resource::Link, stream, Some(peer)),
    }
}

/// Copies a text into a buffer of `length` bytes, with its zero.
pub(crate) unsafe fn put(text: &str, buffer: *mut c_char, length: usize) -> c_int {
    if text.len() + 1 > length {
        return INVALID_VALUE;
    }
    // SAFETY: the buffer is as long as the caller says.
    unsafe {
        buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        buffer.add(text.len()).write(0);
    }
    OK
}

fn known(state: &State, device: c_int) -> bool {
    (0..state.script.devices).contains(&device)
}

/// A device's own number.
pub(crate) fn uuid(state: &State, device: c_int) -> [u8; 16] {
    [0x57u8.wrapping_add(state.script.uuid).wrapping_add(device as u8); 16]
}

/// The devices that users let the driver show, in its order: what an ordinal is an index into. A
/// device's handle is its number among all.
pub(crate) fn shown(state: &State, vendor: Vendor) -> Vec<c_int> {
    let kind = if state.script.mig { "MIG" } else { "GPU" };
    let known = |device: c_int| {
        let digits: String = uuid(state, device).iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        let own = format!("{kind}-{}", parts.join("-"));
        let serial = state.script.serial.as_ref().map(|serial| format!("GPU-{serial}-{device}"));
        (device, [own].into_iter().chain(serial).collect())
    };
    let all = (0..state.script.devices).map(known).collect();
    visible::devices(all, vendor, |name| std::env::var(name).ok())
}

/// Starts: users may leave nothing to show.
pub(crate) fn start(state: &State, vendor: Vendor) -> c_int {
    std::thread::sleep(std::time::Duration::from_secs(state.script.stuck));
    let is_hidden = state.script.devices > 0 && shown(state, vendor).is_empty();
    if is_hidden { NO_DEVICE } else { OK }
}

/// The handle of an ordinal.
pub(crate) fn numbered(state: &State, vendor: Vendor, ordinal: c_int) -> Option<c_int> {
    shown(state, vendor).get(usize::try_from(ordinal).ok()?).copied()
}

/// What stands behind a function's handle.
struct Found {
    name: String,
    library: Arc<Library>,
}

/// What stands behind a module's: its functions live as long as it does.
struct Loaded {
    library: Arc<Library>,
    functions: Vec<*mut Found>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        for function in self.functions.drain(..) {
            // SAFETY: made by `cuModuleGetFunction`, freed once.
            drop(unsafe { Box::from_raw(function) });
        }
    }
}

/// A launch's attribute, of which only the cluster's dimension (4) is looked at.
#[repr(C, align(8))]
struct Attribute {
    id: c_uint,
    padding: [u8; 4],
    value: [c_uint; 16],
}

/// `CUlaunchConfig`.
#[repr(C)]
pub struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: Handle,
    attributes: *const Attribute,
    count: c_uint,
}

/// CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES.
const OUT_OF_RESOURCES: c_int = 701;

/// Objects whose handles must be known where they are used. Streams count up from theirs.
const STREAM: usize = 0x57_0000;
const STREAMS: usize = 0x1000;

thread_local! {
    /// The context of calls that take none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// What stands behind an event's handle.
struct Event {
    /// NaN until it is recorded.
    time: f64,
    stream: usize,
    /// Operations of another stub library that had begun there.
    after: u64,
}

/// The device whose context is current on this thread.
fn current_device() -> c_int {
    CURRENT.get().saturating_sub(CONTEXT) as c_int
}

/// The most shared memory that a block can have, by compute capability: CUDA programming guide,
/// "Technical specifications per compute capability"; of 10.7 CUTLASS, include/cutlass/arch/arch.h.
fn block_memory(capability: c_int) -> c_int {
    let kibibytes = match capability {
        107 => 327,
        80 | 87 => 163,
        86 | 89 | 120 | 121 => 99,
        _ => 227,
    };
    kibibytes << 10
}

/// Whether a handle is a stream's.
fn is_stream(stream: Handle) -> bool {
    (STREAM..STREAM + STREAMS).contains(&(stream as usize))
}

/// A side of a copy: a range of device memory, or memory that only the host knows.
unsafe fn side(state: &mut State, address: u64, bytes: usize) -> *mut u8 {
    match state.memory.bytes(address, bytes) {
        Some(range) => range.as_mut_ptr(),
        None => address as *mut u8,
    }
}

export! {
    cuInit(_flags: c_uint) |state| { start(state, Vendor::Nvidia) }
    cuDriverGetVersion(version: *mut c_int) |state| { version.write(state.script.driver); OK }
    cuDeviceGetCount(count: *mut c_int) |state| {
        count.write(shown(state, Vendor::Nvidia).len() as c_int);
        OK
    }
    cuDeviceGet(device: *mut c_int, ordinal: c_int) |state| {
        let Some(found) = numbered(state, Vendor::Nvidia, ordinal) else { return INVALID_DEVICE };
        device.write(found);
        OK
    }
    cuDeviceGetName(name: *mut c_char, length: c_int, _device: c_int) |state| {
        let slice = if state.script.mig { " MIG 1g.18gb" } else { "" };
        put(&format!("stub GPU{slice}"), name, length as usize)
    }
    cuDeviceGetUuid_v2(bytes: *mut [u8; 16], device: c_int) |state| {
        bytes.write(uuid(state, device));
        OK
    }
    cuDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: c_int) |_state| {
        put(&format!("0000:{:02X}:00.0", device + 1), text, length as usize)
    }
    cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) |state| {
        bytes.write(state.script.memory as usize);
        OK
    }
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) |state| {
        if !known(state, device) { return INVALID_DEVICE; }
        value.write(match attribute {
            13 => 1_000_000,
            16 => state.script.units,
            32 => 1,
            36 => 1_000_000,
            37 => 1_024,
            38 => CACHE_BYTES as c_int,
            75 => state.script.capability / 10,
            76 => state.script.capability % 10,
            97 => block_memory(state.script.capability),
            _ => return INVALID_VALUE,
        });
        OK
    }
    cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) |state| {
        if !known(state, device) { return INVALID_DEVICE; }
        context.write((CONTEXT + device as usize) as Handle);
        state.count("contexts", 1);
        OK
    }
    cuDevicePrimaryCtxRelease_v2(_device: c_int) |state| {
        state.count("contexts", -1);
        let left: i64 = state.alive.values().map(|count| count.abs()).sum();
        let blocks = state.memory.blocks();
        state.log(format!("release blocks={blocks} objects={left}"));
        OK
    }
    cuCtxSetCurrent(context: Handle) |_state| {
        if (context as usize) < CONTEXT { return INVALID_HANDLE; }
        CURRENT.set(context as usize);
        OK
    }
    cuCtxResetPersistingL2Cache() |_state| { OK }
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |state| {
        total.write(state.script.memory as usize);
        let used = state.memory.used(Owner::Device(current_device()));
        free.write((state.script.memory - used) as usize);
        OK
    }
    cuMemAlloc_v2(address: *mut u64, bytes: usize) |state| {
        let total = state.script.memory;
        match state.memory.allocate(Owner::Device(current_device()), bytes, total) {
            Some(found) => { address.write(found); OK }
            None => OUT_OF_MEMORY,
        }
    }
    cuMemFree_v2(address: u64) |state| {
        if state.memory.free(address) { OK } else { INVALID_VALUE }
    }
    cuMemHostAlloc(bytes: *mut *mut c_void, length: usize, _flags: c_uint) |state| {
        let node = crate::numa::of_this_thread(state.script.nodes);
        match state.memory.allocate_on(node, length, state.script.memory) {
            Some(found) => { bytes.write(found as *mut c_void); OK }
            None => OUT_OF_MEMORY,
        }
    }
    cuMemHostGetDevicePointer_v2(address: *mut u64, bytes: *mut c_void, _flags: c_uint) |_state| {
        address.write(bytes as u64);
        OK
    }
    cuMemFreeHost(bytes: *mut c_void) |state| {
        if state.memory.free(bytes as u64) { OK } else { INVALID_VALUE }
    }
    cuMemsetD8Async(address: u64, value: u8, bytes: usize, stream: Handle) |state| {
        if state.memory.read(address, bytes).is_none() { return INVALID_VALUE; }
        state.in_turn(stream as usize, move |state| {
            state.memory.bytes(address, bytes).into_iter().for_each(|range| range.fill(value));
        });
        OK
    }
    cuMemcpyHtoDAsync_v2(
        address: u64, source: *const c_void, bytes: usize, stream: Handle
    ) |state| {
        if state.memory.read(address, bytes).is_none() { return INVALID_VALUE; }
        let source = source as usize;
        state.in_turn(stream as usize, move |state| {
            if let Some(range) = state.memory.bytes(address, bytes) {
                range.copy_from_slice(slice::from_raw_parts(source as *const u8, bytes));
            }
        });
        OK
    }
    cuMemcpyAsync(target: u64, source: u64, bytes: usize, stream: Handle) |state| {
        if !is_stream(stream) { return INVALID_HANDLE; }
        // A range that starts in device memory and ends beyond it is an error of the caller.
        for address in [target, source] {
            let known = state.memory.read(address, 1).is_some();
            // Pageable memory of the host: the call comes back when the copy is done.
            if !known { state.wait_behind_gate(); }
            if known && state.memory.read(address, bytes).is_none() { return INVALID_VALUE; }
        }
        let (to, from) = (side(state, target, bytes), side(state, source, bytes));
        std::ptr::copy(from, to, bytes);
        state.log(format!("copy bytes={bytes} stream={}", stream as usize - STREAM));
        state.spend(stream as usize, &Cost::copying(target, source, bytes as u64));
        OK
    }
    cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) |state| {
        if !known(state, device) || !known(state, peer) { return INVALID_DEVICE; }
        can.write(c_int::from(device != peer && !state.script.apart));
        OK
    }
    cuCtxEnablePeerAccess(context: Handle, _flags: c_uint) |state| {
        state.log(format!("peer {}", context as usize - CONTEXT));
        OK
    }
    cuCtxGetLimit(value: *mut usize, limit: c_int) |_state| {
        if limit != 6 { return INVALID_VALUE; }
        value.write(0);
        OK
    }
    cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) |state| {
        if !is_stream(stream) || event.is_null() { return INVALID_HANDLE; }
        state.wait_until(stream as usize, (*event.cast::<Event>()).time);
        OK
    }
    cuStreamBeginCapture_v2(stream: Handle, _mode: c_int) |state| {
        let known = is_stream(stream) && !state.captures.contains_key(&(stream as usize));
        if !known { return INVALID_HANDLE; }
        state.captures.insert(stream as usize, Vec::new());
        OK
    }
    cuStreamEndCapture(stream: Handle, graph: *mut Handle) |state| {
        match state.captures.remove(&(stream as usize)) {
            Some(launches) => {
                state.log(format!("graph kernels={}", launches.len()));
                graph.write(Box::into_raw(Box::<Graph>::new(launches)).cast());
                state.count("graphs", 1);
                OK
            }
            None => INVALID_HANDLE,
        }
    }
    cuGraphInstantiateWithFlags(made: *mut Handle, graph: Handle, _flags: u64) |state| {
        let launches = (*graph.cast::<Graph>()).clone();
        made.write(Box::into_raw(Box::new(launches)).cast());
        state.count("graphs", 1);
        OK
    }
    cuGraphExecDestroy(graph: Handle) |state| {
        drop(Box::from_raw(graph.cast::<Graph>()));
        state.count("graphs", -1);
        OK
    }
    cuGraphDestroy(graph: Handle) |state| {
        drop(Box::from_raw(graph.cast::<Graph>()));
        state.count("graphs", -1);
        OK
    }
    cuMemcpyDtoHAsync_v2(
        target: *mut c_void, address: u64, bytes: usize, stream: Handle
    ) |state| {
        if state.memory.read(address, bytes).is_none() { return INVALID_VALUE; }
        let target = target as usize;
        state.in_turn(stream as usize, move |state| {
            if let Some(range) = state.memory.read(address, bytes) {
                slice::from_raw_parts_mut(target as *mut u8, bytes).copy_from_slice(range);
            }
        });
        OK
    }
    cuStreamCreate(stream: *mut Handle, _flags: c_uint) |state| {
        let made = STREAM + state.streams % STREAMS;
        stream.write(made as Handle);
        state.contexts.insert(made, CURRENT.get());
        state.streams += 1;
        state.count("streams", 1);
        OK
    }
    cuStreamDestroy_v2(_stream: Handle) |state| { state.count("streams", -1); OK }
    cuEventCreate(event: *mut Handle, _flags: c_uint) |state| {
        event.write(Box::into_raw(Box::new(Event { time: f64::NAN, stream: 0, after: 0 })).cast());
        state.count("events", 1);
        OK
    }
    cuEventDestroy_v2(event: Handle) |state| {
        drop(Box::from_raw(event.cast::<Event>()));
        state.count("events", -1);
        OK
    }
    cuEventRecord(event: Handle, stream: Handle) |state| {
        if !is_stream(stream) { return INVALID_HANDLE; }
        event.cast::<Event>().write(Event {
            time: state.now_on(stream as usize),
            stream: stream as usize,
            after: state.began(stream as usize),
        });
        state.next_region(stream as usize);
        OK
    }
    cuEventQuery(event: Handle) |state| {
        let event = &*event.cast::<Event>();
        if event.time.is_nan() { return INVALID_HANDLE; }
        if state.ends(event.stream) && state.is_past(event.stream, event.after) { OK } else { NOT_READY }
    }
    cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) |_state| {
        let nanoseconds = (*end.cast::<Event>()).time - (*start.cast::<Event>()).time;
        milliseconds.write((nanoseconds / 1e6) as f32);
        OK
    }
    cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) |_state| {
        let nanoseconds = (*end.cast::<Event>()).time - (*start.cast::<Event>()).time;
        milliseconds.write((nanoseconds / 1e6) as f32);
        OK
    }
    cuModuleLoadData(module: *mut Handle, image: *const c_void) |state| {
        // A GPU's binary is refused: then its text is compiled.
        let newest = state.script.images.unwrap_or(state.script.driver / 1_000);
        let Some(library) = Library::load(image.cast(), newest) else { return INVALID_IMAGE };
        let loaded = Loaded { library: Arc::new(library), functions: Vec::new() };
        module.write(Box::into_raw(Box::new(loaded)).cast());
        state.count("modules", 1);
        OK
    }
    cuModuleUnload(module: Handle) |state| {
        drop(Box::from_raw(module.cast::<Loaded>()));
        state.count("modules", -1);
        OK
    }
    cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) |state| {
        if module.is_null() { return INVALID_HANDLE; }
        let library = Arc::clone(&(*module.cast::<Loaded>()).library);
        let is_there = library.has(CStr::from_ptr(name));
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        if !is_there {
            state.log(format!("unknown {name}"));
            return NOT_FOUND;
        }
        let found = Box::into_raw(Box::new(Found { name, library }));
        (*module.cast::<Loaded>()).functions.push(found);
        function.write(found.cast());
        OK
    }
    cuFuncLoad(function: Handle) |_state| {
        if function.is_null() { INVALID_HANDLE } else { OK }
    }
    cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) |state| {
        let found = &*function.cast::<Found>();
        value.write(match attribute {
            0 => state.script.threads_max(&found.name) as c_int,
            1 => 0,
            _ => return INVALID_VALUE,
        });
        OK
    }
    cuFuncGetParamInfo(
        function: Handle, index: usize, place: *mut usize, bytes: *mut usize
    ) |_state| {
        let all = parameters(&*function.cast::<Found>());
        let Some(one) = all.get(index) else { return INVALID_VALUE };
        place.write(one.place as usize);
        bytes.write(one.bytes as usize);
        OK
    }
    cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) |state| {
        let found = &*function.cast::<Found>();
        state.log(format!("attribute {} {attribute}={value}", found.name));
        let too_much = attribute == 8 && value > block_memory(state.script.capability);
        if too_much { INVALID_VALUE } else { OK }
    }
    cuLaunchKernelEx(
        config: *const Config, function: Handle, params: *mut Handle, extra: *mut Handle
    ) |state| {
        let Some(bytes) = given(&*function.cast::<Found>(), params, extra) else {
            return INVALID_VALUE;
        };
        // As a driver does whose kernel has a tensor map elsewhere than in a piece of these bytes: on
        // compute capability 9.0 error 701, or an illegal instruction once the map is used.
        if !extra.is_null() && has_a_map(&*function.cast::<Found>()) { return OUT_OF_RESOURCES; }
        let config = &*config;
        let mut cluster = 1;
        for at in 0..config.count as usize {
            let attribute = &*config.attributes.add(at);
            if attribute.id == 4 {
                cluster = attribute.value[..3].iter().product();
            }
        }
        let Config { grid, block, shared, stream, .. } = *config;
        launch(state, function, grid, block, shared, stream, bytes, cluster)
    }
    fizeau_stub_begin(stream: Handle, nanoseconds: f64) |state| {
        state.begin(stream as usize);
        state.pass(stream as usize, nanoseconds);
        OK
    }
    fizeau_stub_capture(stream: Handle, replay: Foreign, kept: Handle) |state| {
        match state.captures.get_mut(&(stream as usize)) {
            Some(nodes) => {
                nodes.push(Node::Foreign(replay, kept as usize));
                OK
            }
            None => NOT_FOUND,
        }
    }
    fizeau_stub_end(stream: Handle) |state| { state.end(stream as usize); OK }
    fizeau_stub_hang(stream: Handle) |state| { state.hang(stream as usize); OK }
    cuTensorMapEncodeTiled(
        map: *mut [u8; 128], data_type: c_int, rank: c_uint, address: u64, sizes: *const u64,
        strides: *const u64, box_sizes: *const u32, element_strides: *const u32,
        interleave: c_int, swizzle: c_int, promotion: c_int, fill: c_int
    ) |state| {
        // What the encoder is told, in an order of our own: a real map's bits are the driver's.
        let rank = rank as usize;
        let (sizes, boxes) =
            (slice::from_raw_parts(sizes, rank), slice::from_raw_parts(box_sizes, rank));
        let strides = slice::from_raw_parts(strides, rank.saturating_sub(1));
        let steps = slice::from_raw_parts(element_strides, rank);
        if !address.is_multiple_of(16)
            || strides.iter().any(|stride| !stride.is_multiple_of(16))
            || boxes.iter().any(|&size| size == 0 || size > 256)
            || !(map as usize).is_multiple_of(64)
        {
            return INVALID_VALUE;
        }
        // Bytes of an element, by CUtensorMapDataType.
        let element = match data_type {
            0 => 1u32,
            6 | 9 => 2,
            7 => 4,
            8 => 8,
            _ => return INVALID_VALUE,
        };
        // The model's copies move tiles of whole rows beside each other, of 128 bytes each.
        // Of a pattern of 128 bytes 16 stay together, or 32.
        let atom = match swizzle {
            3 => 16u32,
            4 => 32,
            _ => return INVALID_VALUE,
        };
        let is_plain = rank == 2 && strides[0] == sizes[0] * u64::from(element);
        if !is_plain { return INVALID_VALUE; }
        // TensorMap of tests/kernel_model/sm90.h.
        let mut bytes = [0u8; 128];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&element.to_le_bytes());
        bytes[16..24].copy_from_slice(&sizes[0].to_le_bytes());
        bytes[24..32].copy_from_slice(&sizes[1].to_le_bytes());
        bytes[32..36].copy_from_slice(&boxes[0].to_le_bytes());
        bytes[36..40].copy_from_slice(&boxes[1].to_le_bytes());
        bytes[40..44].copy_from_slice(&atom.to_le_bytes());
        map.write(bytes);
        state.log(format!(
            "tensor_map type={data_type} sizes={sizes:?} strides={strides:?} box={boxes:?} \
             steps={steps:?} interleave={interleave} swizzle={swizzle} promotion={promotion} \
             fill={fill}"
        ));
        OK
    }
}

/// As the vendor documents it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(graph: Handle, stream: Handle) -> c_int {
    // Other libraries call this one back: the state is not held while they are called.
    let begun = call("cuGraphLaunch", |_| if is_stream(stream) { OK } else { INVALID_HANDLE });
    if begun != OK {
        return begun;
    }
    // SAFETY: the caller passes a graph that is alive.
    let nodes = unsafe { (*graph.cast::<Graph>()).clone() };
    for node in &nodes {
        let code = match node {
            // SAFETY: what was given with it lives as long as the process.
            Node::Foreign(replay, kept) => unsafe {
                replay(*kept as Handle, stream);
                OK
            },
            Node::Launch(call) => {
                let mut state = state::state();
                let name = call.name();
                let speed = state.script.speeds.of_entry(&name);
                let cost = Cost::of(&name, &call.params).at_speed(speed);
                // A graph's launches are set up in half of the time.
                let cost = Cost { launches: cost.launches / 2.0, ..cost };
                perform(&mut state, stream as usize, call, &cost)
            }
        };
        if code != OK {
            return code;
        }
    }
    OK
}

/// The bytes of a launch's parameters, from their addresses or from the list of extras; none where it is
/// neither.
///
/// # Safety
///
/// There are as many addresses as the function has parameters; the list ends with a zero.
unsafe fn given(found: &Found, params: *mut Handle, extra: *mut Handle) -> Option<Vec<u8>> {
    if params.is_null() == extra.is_null() {
        return None;
    }
    if params.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { in_one_piece(extra, 0) };
    }
    let mut bytes = Vec::new();
    for (at, parameter) in parameters(found).into_iter().enumerate() {
        bytes.resize(parameter.place as usize, 0);
        // SAFETY: the caller's promise.
        bytes.extend(unsafe {
            slice::from_raw_parts((*params.add(at)).cast::<u8>(), parameter.bytes as usize)
        });
    }
    Some(bytes)
}

/// What a list of extras says: `end` ends it.
///
/// # Safety
///
/// It ends, and what it says is so.
pub(crate) unsafe fn in_one_piece(extra: *mut Handle, end: usize) -> Option<Vec<u8>> {
    let (mut bytes, mut size, mut at) = (std::ptr::null::<u8>(), 0, extra);
    // SAFETY: the caller's promise.
    unsafe {
        while *at as usize != end {
            match *at as usize {
                1 => bytes = (*at.add(1)).cast(),
                2 => size = (*at.add(1)).cast::<usize>().read(),
                _ => return None,
            }
            at = at.add(2);
        }
        Some(slice::from_raw_parts(bytes, size).to_vec())
    }
}

fn parameters(found: &Found) -> Vec<Parameter> {
    CString::new(found.name.as_str()).map_or(Vec::new(), |name| found.library.parameters(&name))
}

/// Whether a parameter is aligned as a tensor map has to be.
fn has_a_map(found: &Found) -> bool {
    parameters(found).iter().any(|parameter| parameter.alignment >= 64)
}

/// Launches a function with the bytes of its parameters.
#[expect(clippy::too_many_arguments, reason = "as many as a launch has")]
pub(crate) unsafe fn launch(
    state: &mut State,
    function: Handle,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: Handle,
    bytes: Vec<u8>,
    cluster: c_uint,
) -> c_int {
    if !is_stream(stream) {
        return INVALID_HANDLE;
    }
    // SAFETY: the caller passes a function that was got.
    let found = unsafe { &*function.cast::<Found>() };
    let in_cluster =
        if cluster > 1 { format!(" cluster=[{cluster}, 1, 1]") } else { String::new() };
    state.log(format!(
        "launch {} grid={grid:?} block={block:?} shared={shared}{in_cluster} params={}",
        found.name,
        hex(&bytes),
    ));
    let Ok(entry) = CString::new(found.name.as_str()) else { return INVALID_HANDLE };
    let [blocks, threads] = [grid, block].map(|of| of.iter().product());
    if threads > state.script.threads_max(&found.name) {
        return OUT_OF_RESOURCES;
    }
    let speed = state.script.speeds.of_entry(&found.name);
    let cost = Cost::of(&found.name, &bytes).at_speed(speed);
    let call = Call {
        library: Arc::clone(&found.library),
        entry,
        params: bytes,
        shape: [blocks, threads, shared, cluster],
    };
    if let Some(launches) = state.captures.get_mut(&(stream as usize)) {
        launches.push(Node::Launch(call));
        return OK;
    }
    perform(state, stream as usize, &call, &cost)
}
