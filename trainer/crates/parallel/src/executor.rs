//! Runs a model block by block, with the autograd graph cut between the blocks.
//!
//! Forward gives each block a detached input; backward takes one vector-Jacobian product a block, from
//! the last to the first. So a strategy can act between any two blocks (gather, free, reduce), and with
//! activation checkpointing a block's graph is dropped after forward and built again in backward.
//!
//! Legend: `t` tokens, `n` rows with a label, `d` hidden size, `v` vocabulary.

use std::ops::Range;

use tch::{Kind, Tensor, no_grad_guard};
use trainer_models::{Model, Pass, Unit};
use trainer_torch_ext::grad;

use crate::batch::MicroBatch;
use crate::error::ParallelError;
use crate::objective::{CHUNK_ROWS, HeadPass, LossSums, Objective};

/// Takes up the gradients of parameters, unit by unit as backward goes.
pub(crate) trait GradientSink {
    /// Returns the trainable parameters of a unit, in a fixed order.
    fn trainable(&self, unit: Unit) -> Vec<Tensor>;

    /// Adds `factor` times the gradients of a unit's parameters, in the order of [`GradientSink::trainable`].
    fn add(
        &mut self,
        unit: Unit,
        gradients: Vec<Option<Tensor>>,
        factor: f64,
    ) -> Result<(), ParallelError>;
}

/// How a forward and backward are to be run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Executor<'a> {
    /// The model to run.
    pub(crate) model: &'a Model,
    /// Recompute each block in backward instead of keeping its activations.
    pub(crate) recomputes: bool,
}

/// What backward needs of a block: its detached input, and its output with the graph where that was kept.
struct BlockRun {
    input_td: Tensor,
    output_td: Option<Tensor>,
}

impl Executor<'_> {
    /// Runs forward and backward over one micro-batch; gradients are those of the sum of losses times `scale`.
    pub(crate) fn forward_backward(
        &self,
        batch: &MicroBatch,
        pass: &Pass<'_>,
        objective: &dyn Objective,
        scale: f64,
        sink: &mut dyn GradientSink,
    ) -> Result<LossSums, ParallelError> {
        let embedded_td = self.embed(batch, sink)?;
        let mut needs_input = embedded_td.requires_grad();
        let mut hidden_td = embedded_td.f_detach()?;
        let mut runs = Vec::with_capacity(self.model.num_blocks());
        for index in 0..self.model.num_blocks() {
            let input_td = hidden_td.f_set_requires_grad(needs_input)?;
            needs_input |= !sink.trainable(Unit::Block(index)).is_empty();
            let keeps_graph = needs_input && !self.recomputes;
            let output_td = self.block(index, &input_td, pass, keeps_graph)?;
            hidden_td = output_td.f_detach()?;
            runs.push(needs_input.then(|| BlockRun {
                input_td,
                output_td: keeps_graph.then_some(output_td),
            }));
        }
        let mut head = Head::new(
            self.model,
            &hidden_td,
            needs_input,
            Some(HeadSink {
                sink: &mut *sink,
                scale,
            }),
        );
        let sums = objective.run(batch, &mut head)?;
        let Some(mut gradient_td) = head.into_gradient() else {
            return Ok(sums);
        };
        drop(hidden_td);
        gradient_td = gradient_td.f_mul_scalar_(scale)?;
        for (index, run) in runs.into_iter().enumerate().rev() {
            let Some(run) = run else { return Ok(sums) };
            match self.backward_block(index, run, pass, gradient_td, sink)? {
                Some(input_gradient_td) => gradient_td = input_gradient_td,
                None => return Ok(sums),
            }
        }
        let parameters = sink.trainable(Unit::Embed);
        if !parameters.is_empty() {
            let parameters: Vec<&Tensor> = parameters.iter().collect();
            let gradients = grad(&[&embedded_td], &[&gradient_td], &parameters, false)?;
            sink.add(Unit::Embed, gradients, 1.0)?;
        }
        Ok(sums)
    }

    /// Runs forward alone.
    pub(crate) fn forward(
        &self,
        batch: &MicroBatch,
        pass: &Pass<'_>,
        objective: &dyn Objective,
    ) -> Result<LossSums, ParallelError> {
        let _guard = no_grad_guard();
        let mut hidden_td = self.model.embed(&batch.input_ids)?;
        for index in 0..self.model.num_blocks() {
            hidden_td = self.model.block(index, &hidden_td, pass)?;
        }
        objective.run(batch, &mut Head::new(self.model, &hidden_td, false, None))
    }

    fn embed(&self, batch: &MicroBatch, sink: &dyn GradientSink) -> Result<Tensor, ParallelError> {
        let _guard = sink.trainable(Unit::Embed).is_empty().then(no_grad_guard);
        Ok(self.model.embed(&batch.input_ids)?)
    }

    fn block(
        &self,
        index: usize,
        input_td: &Tensor,
        pass: &Pass<'_>,
        keeps_graph: bool,
    ) -> Result<Tensor, ParallelError> {
        let _guard = (!keeps_graph).then(no_grad_guard);
        Ok(self.model.block(index, input_td, pass)?)
    }

    /// Returns the gradient of the block's input, where anything before the block needs it.
    fn backward_block(
        &self,
        index: usize,
        run: BlockRun,
        pass: &Pass<'_>,
        gradient_td: Tensor,
        sink: &mut dyn GradientSink,
    ) -> Result<Option<Tensor>, ParallelError> {
        let output_td = match run.output_td {
            Some(output_td) => output_td,
            None => self.block(index, &run.input_td, pass, true)?,
        };
        let parameters = sink.trainable(Unit::Block(index));
        let needs_input = run.input_td.requires_grad();
        let mut inputs: Vec<&Tensor> = parameters.iter().collect();
        if needs_input {
            inputs.push(&run.input_td);
        }
        let mut gradients = grad(&[&output_td], &[&gradient_td], &inputs, false)?;
        drop((output_td, gradient_td));
        let input_gradient_td = if needs_input {
            gradients.pop().flatten()
        } else {
            None
        };
        sink.add(Unit::Block(index), gradients, 1.0)?;
        Ok(input_gradient_td)
    }
}

/// Where the head's gradients go, and the factor they get on the way.
struct HeadSink<'a> {
    sink: &'a mut dyn GradientSink,
    scale: f64,
}

/// The head over chunks of rows.
struct Head<'a> {
    model: &'a Model,
    hidden_td: &'a Tensor,
    /// Whether anything before the head is trained.
    needs_hidden: bool,
    sink: Option<HeadSink<'a>>,
    /// Unscaled gradient of the hidden states, once a chunk has given one.
    gradient_td: Option<Tensor>,
}

impl<'a> Head<'a> {
    fn new(
        model: &'a Model,
        hidden_td: &'a Tensor,
        needs_hidden: bool,
        sink: Option<HeadSink<'a>>,
    ) -> Self {
        Self {
            model,
            hidden_td,
            needs_hidden,
            sink,
            gradient_td: None,
        }
    }

    fn into_gradient(self) -> Option<Tensor> {
        self.gradient_td
    }

    /// Carries the gradient of a chunk's logits on to the head's parameters and to the hidden states.
    fn backward(
        &mut self,
        rows_n: &Tensor,
        hidden_nd: &Tensor,
        logits_nv: &Tensor,
        gradient_nv: &Tensor,
    ) -> Result<(), ParallelError> {
        let Some(target) = &mut self.sink else {
            return Ok(());
        };
        let parameters = target.sink.trainable(Unit::Head);
        let mut inputs: Vec<&Tensor> = parameters.iter().collect();
        if self.needs_hidden {
            inputs.push(hidden_nd);
        }
        if inputs.is_empty() {
            return Ok(());
        }
        let mut gradients = grad(&[logits_nv], &[gradient_nv], &inputs, false)?;
        if self.needs_hidden
            && let Some(hidden_gradient_nd) = gradients.pop().flatten()
        {
            let mut all_td = match self.gradient_td.take() {
                Some(all_td) => all_td,
                None => self.hidden_td.f_zeros_like()?,
            };
            self.gradient_td = Some(all_td.f_index_add_(0, rows_n, &hidden_gradient_nd)?);
        }
        if parameters.is_empty() {
            return Ok(());
        }
        target.sink.add(Unit::Head, gradients, target.scale)
    }
}

impl HeadPass for Head<'_> {
    fn wants_gradient(&self) -> bool {
        self.sink.is_some()
    }

    fn for_each_chunk(
        &mut self,
        rows: &Tensor,
        visit: &mut dyn FnMut(Tensor, Range<i64>) -> Result<Option<Tensor>, ParallelError>,
    ) -> Result<(), ParallelError> {
        let num_rows = rows.size1()?;
        let mut start = 0;
        while start < num_rows {
            let end = (start + CHUNK_ROWS).min(num_rows);
            let rows_n = rows.f_narrow(0, start, end - start)?;
            let hidden_nd = self
                .hidden_td
                .f_index_select(0, &rows_n)?
                .f_set_requires_grad(self.needs_hidden)?;
            let logits_nv = {
                let _guard = self.sink.is_none().then(no_grad_guard);
                self.model.head(&hidden_nd)?
            };
            let gradient_nv = visit(logits_nv.f_detach()?, start..end)?;
            if let Some(gradient_nv) = gradient_nv {
                let kind: Kind = logits_nv.kind();
                let gradient_nv = if gradient_nv.kind() == kind {
                    gradient_nv
                } else {
                    gradient_nv.f_to_kind(kind)?
                };
                self.backward(&rows_n, &hidden_nd, &logits_nv, &gradient_nv)?;
            }
            start = end;
        }
        Ok(())
    }
}
