//! One rank: everything on one device, nothing to communicate.
//!
//! Memory: weights, one gradient and two moments for each trainable element, and the activations of one
//! micro-batch (of one block, with activation checkpointing).

use std::collections::HashMap;
use std::path::Path;

use tch::{Kind, Tensor, no_grad_guard};
use trainer_models::{Model, Unit};
use trainer_torch_ext::{AdamW, foreach_norm, foreach_scale, fused_adamw};

use crate::batch::MicroBatch;
use crate::error::ParallelError;
use crate::executor::{Executor, GradientSink};
use crate::objective::{LossSums, Objective};
use crate::seed::dropout_seed;
use crate::state_file;
use crate::strategy::{ModelView, ParameterGroup, Strategy};

/// The optimizer's numbers that stay the same for a whole run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimizerOptions {
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Keeps the division finite.
    pub eps: f64,
    /// Decoupled weight decay of all parameters but biases and norms.
    pub weight_decay: f64,
}

/// How a strategy runs the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Recompute each block in backward instead of keeping its activations.
    pub activation_checkpointing: bool,
    /// Seed of dropout.
    pub seed: u64,
}

/// A trainable parameter with what the optimizer keeps for it.
struct Slot {
    name: String,
    leaf: Tensor,
    gradient: Option<Tensor>,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    group: usize,
}

/// Keeps gradients by parameter; a tied weight that two units share has one slot.
struct Slots {
    slots: Vec<Slot>,
    by_unit: HashMap<Unit, Vec<usize>>,
}

/// The strategy for one rank.
pub struct Single {
    model: Model,
    slots: Slots,
    groups: Vec<ParameterGroup>,
    optimizer: OptimizerOptions,
    options: RunOptions,
    /// Updates done, as the fused kernel wants it.
    num_updates: Tensor,
}

impl Single {
    /// Takes a loaded model whose trainable parameters are to be optimized.
    pub fn new(
        model: Model,
        optimizer: OptimizerOptions,
        options: RunOptions,
    ) -> Result<Self, ParallelError> {
        let mut groups = vec![
            ParameterGroup {
                name: "decay",
                weight_decay: optimizer.weight_decay,
                num_elements: 0,
            },
            ParameterGroup {
                name: "no_decay",
                weight_decay: 0.0,
                num_elements: 0,
            },
        ];
        let slots = Slots::of(&model, &mut groups)?;
        let num_updates = Tensor::f_zeros([], (Kind::Float, model.device()))?;
        Ok(Self {
            model,
            slots,
            groups,
            optimizer,
            options,
            num_updates,
        })
    }

    fn executor(&self) -> Executor<'_> {
        Executor {
            model: &self.model,
            recomputes: self.options.activation_checkpointing,
        }
    }

    /// Returns the optimizer's tensors by the names that they have in files.
    fn state(&self) -> Vec<(String, Tensor)> {
        let mut tensors = vec![("num_updates".to_owned(), self.num_updates.shallow_clone())];
        for slot in &self.slots.slots {
            tensors.push((
                format!("exp_avg.{}", slot.name),
                slot.exp_avg.shallow_clone(),
            ));
            tensors.push((
                format!("exp_avg_sq.{}", slot.name),
                slot.exp_avg_sq.shallow_clone(),
            ));
        }
        tensors
    }

    /// Returns a parameter's gradient as it is now, for tests.
    #[doc(hidden)]
    pub fn gradient(&self, name: &str) -> Option<&Tensor> {
        self.slots
            .slots
            .iter()
            .find(|slot| slot.name == name)
            .and_then(|slot| slot.gradient.as_ref())
    }
}

impl Slots {
    fn of(model: &Model, groups: &mut [ParameterGroup]) -> Result<Self, ParallelError> {
        let mut slots: Vec<Slot> = Vec::new();
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let mut by_unit = HashMap::new();
        for unit in model.units() {
            let mut indices = Vec::new();
            let tied = if unit == Unit::Head {
                model.tied_weight()
            } else {
                None
            };
            let parameters = model.parameters(unit).into_iter().chain(tied);
            for parameter in parameters.filter(|parameter| parameter.is_trainable) {
                let index = if let Some(index) = by_name.get(&parameter.name) {
                    *index
                } else {
                    let group = usize::from(!parameter.has_decay);
                    groups[group].num_elements += parameter.tensor.numel() as u64;
                    by_name.insert(parameter.name.clone(), slots.len());
                    slots.push(Slot {
                        exp_avg: parameter
                            .tensor
                            .f_zeros_like()?
                            .f_set_requires_grad(false)?,
                        exp_avg_sq: parameter
                            .tensor
                            .f_zeros_like()?
                            .f_set_requires_grad(false)?,
                        name: parameter.name,
                        leaf: parameter.tensor,
                        gradient: None,
                        group,
                    });
                    slots.len() - 1
                };
                indices.push(index);
            }
            by_unit.insert(unit, indices);
        }
        Ok(Self { slots, by_unit })
    }

    fn gradients(&self) -> Vec<&Tensor> {
        self.slots
            .iter()
            .filter_map(|slot| slot.gradient.as_ref())
            .collect()
    }

    fn drop_gradients(&mut self) {
        for slot in &mut self.slots {
            slot.gradient = None;
        }
    }
}

impl GradientSink for Slots {
    fn trainable(&self, unit: Unit) -> Vec<Tensor> {
        let indices = self.by_unit.get(&unit).map_or(&[][..], Vec::as_slice);
        indices
            .iter()
            .map(|index| self.slots[*index].leaf.shallow_clone())
            .collect()
    }

    fn add(
        &mut self,
        unit: Unit,
        gradients: Vec<Option<Tensor>>,
        factor: f64,
    ) -> Result<(), ParallelError> {
        let _guard = no_grad_guard();
        let Some(indices) = self.by_unit.get(&unit) else {
            return Ok(());
        };
        for (index, gradient) in indices.iter().zip(gradients) {
            let Some(mut gradient) = gradient else {
                continue;
            };
            let slot = &mut self.slots[*index];
            #[expect(clippy::float_cmp, reason = "1 means: not scaled")]
            if factor != 1.0 {
                gradient = gradient.f_mul_scalar_(factor)?;
            }
            slot.gradient = Some(match slot.gradient.take() {
                None => gradient,
                Some(mut sum) => sum.f_add_(&gradient)?,
            });
        }
        Ok(())
    }
}

impl Strategy for Single {
    fn accumulate(
        &mut self,
        step: u64,
        batches: &[MicroBatch],
        objective: &dyn Objective,
    ) -> Result<LossSums, ParallelError> {
        let total_weight: f64 = batches.iter().map(|batch| objective.weight(batch)).sum();
        let mut sums = LossSums::default();
        for (index, batch) in batches.iter().enumerate() {
            if objective.weight(batch) <= 0.0 {
                continue;
            }
            let pass = self
                .model
                .pass(&batch.position_ids, &batch.segment_lengths)?;
            let pass = pass.with_dropout(dropout_seed(self.options.seed, step, index, 0));
            let executor = Executor {
                model: &self.model,
                recomputes: self.options.activation_checkpointing,
            };
            sums.add(executor.forward_backward(
                batch,
                &pass,
                objective,
                1.0 / total_weight,
                &mut self.slots,
            )?);
        }
        Ok(sums)
    }

    fn evaluate(
        &self,
        batch: &MicroBatch,
        objective: &dyn Objective,
        view: ModelView,
    ) -> Result<LossSums, ParallelError> {
        if batch.is_empty() {
            return Ok(LossSums::default());
        }
        let pass = self
            .model
            .pass(&batch.position_ids, &batch.segment_lengths)?;
        let pass = if view == ModelView::Base {
            pass.without_adapters()
        } else {
            pass
        };
        self.executor().forward(batch, &pass, objective)
    }

    fn clip_grad_norm(&mut self, max_norm: f64) -> Result<f64, ParallelError> {
        let gradients = self.slots.gradients();
        let norm = foreach_norm(&gradients)?;
        if max_norm > 0.0 && norm.is_finite() && norm > max_norm {
            foreach_scale(&gradients, max_norm / (norm + 1e-6))?;
        }
        Ok(norm)
    }

    fn update(&mut self, learning_rates: &[f64]) -> Result<(), ParallelError> {
        let _guard = no_grad_guard();
        drop(self.num_updates.f_add_scalar_(1)?);
        for (group, (settings, learning_rate)) in self.groups.iter().zip(learning_rates).enumerate()
        {
            let slots: Vec<(&Slot, &Tensor)> = self
                .slots
                .slots
                .iter()
                .filter(|slot| slot.group == group)
                .filter_map(|slot| slot.gradient.as_ref().map(|gradient| (slot, gradient)))
                .collect();
            let steps: Vec<&Tensor> = vec![&self.num_updates; slots.len()];
            let column = |pick: fn(&Slot) -> &Tensor| {
                slots.iter().map(|(slot, _)| pick(slot)).collect::<Vec<_>>()
            };
            let gradients: Vec<&Tensor> = slots.iter().map(|(_, gradient)| *gradient).collect();
            fused_adamw(
                &column(|slot| &slot.leaf),
                &gradients,
                &column(|slot| &slot.exp_avg),
                &column(|slot| &slot.exp_avg_sq),
                &steps,
                AdamW {
                    learning_rate: *learning_rate,
                    beta1: self.optimizer.beta1,
                    beta2: self.optimizer.beta2,
                    eps: self.optimizer.eps,
                    weight_decay: settings.weight_decay,
                },
            )?;
        }
        self.slots.drop_gradients();
        Ok(())
    }

    fn skip(&mut self) {
        self.slots.drop_gradients();
    }

    fn groups(&self) -> &[ParameterGroup] {
        &self.groups
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn save_optimizer(&self, path: &Path) -> Result<(), ParallelError> {
        state_file::write(path, &self.state())
    }

    fn load_optimizer(&mut self, path: &Path) -> Result<(), ParallelError> {
        let _guard = no_grad_guard();
        state_file::read(path, self.state())
    }
}
