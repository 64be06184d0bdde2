//! Kernels enqueued as one: a graph, captured from a stream of its own.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    context::{Context, For},
    module::{Arguments, Entry},
    status::Meaning,
    vendor::Shape,
};
use crate::{DeviceError, Result, library::Handle};
use std::rc::Rc;

/// A graph that can be launched again and again.
pub struct Graph {
    context: Rc<Context>,
    stream: Handle,
    graph: Handle,
    executable: Handle,
}

impl Graph {
    /// `count` launches of a kernel, one after the other.
    pub fn of(
        context: &Rc<Context>,
        entry: &Entry,
        shape: &Shape,
        params: &mut Arguments,
        count: u32,
    ) -> Result<Graph> {
        Graph::captured(context, &mut |stream| {
            context.launch_on(stream, entry, shape, params, count)
        })
    }

    /// Whatever is enqueued on the stream that is given.
    ///
    /// # Errors
    ///
    /// What the driver refuses, or what enqueues.
    pub fn captured(
        context: &Rc<Context>,
        enqueue: &mut dyn FnMut(Handle) -> Result<()>,
    ) -> Result<Graph> {
        let null = std::ptr::null_mut();
        let context = Rc::clone(context);
        let mut made = Graph { context, stream: null, graph: null, executable: null };
        let vendor = made.context.driver().vendor;
        let told = |context: &Context, said| context.told(said, For::Kernel("graph"));
        // SAFETY: the pointers are valid; what is made is destroyed by `drop`. A capture that fails
        // is ended all the same.
        unsafe {
            let f = made.context.current()?;
            told(&made.context, f.stream_create(&raw mut made.stream, vendor.flags.non_blocking))?;
            match f.capture_begin(made.stream, vendor.flags.thread_local) {
                Err(refusal) if vendor.means(&refusal, Meaning::NotSupported) => {
                    let (kernel, needs) = ("graph".into(), "capture of streams".into());
                    return Err(DeviceError::Unsupported { kernel, needs });
                }
                said => told(&made.context, said)?,
            }
            let enqueued = enqueue(made.stream);
            let ended = f.capture_end(made.stream, &raw mut made.graph);
            enqueued?;
            told(&made.context, ended)?;
            told(&made.context, f.graph_make(&raw mut made.executable, made.graph, 0))?;
        }
        Ok(made)
    }

    /// Enqueues it.
    pub fn launch(&self) -> Result<()> {
        let context = &self.context;
        // SAFETY: graph and stream are alive.
        let said = unsafe { context.current()?.graph_launch(self.executable, context.stream) };
        context.told(said, For::Kernel("graph"))?;
        context.enqueued_one();
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let Ok(f) = self.context.current() else { return };
        // SAFETY: each is destroyed once, null ones not at all.
        unsafe {
            if !self.executable.is_null() {
                let _ = f.graph_executable_destroy(self.executable);
            }
            if !self.graph.is_null() {
                let _ = f.graph_destroy(self.graph);
            }
            if !self.stream.is_null() {
                let _ = f.stream_destroy(self.stream);
            }
        }
    }
}
