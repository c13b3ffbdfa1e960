//! A whole model: embedding, blocks, head, and the parts a caller drives them by.

use std::path::{Path, PathBuf};

use tch::{Device, Kind, Tensor};

use crate::{
    ModelConfig, ModelError, Parameter, Pass, Precision, Tuning, Unit,
    adapter::{self, Attached},
    config::RawConfig,
    decoder::Block,
    folder::Loader,
    nn::{Linear, RmsNorm, Rotary},
    registry,
};

/// How a model is loaded.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The types of weights and computation.
    pub precision: Precision,
    /// What is trained.
    pub tuning: Tuning,
    /// Where the weights live.
    pub device: Device,
}

/// A decoder-only language model on one device.
#[derive(Debug)]
pub struct Model {
    pub(crate) folder: PathBuf,
    pub(crate) raw: RawConfig,
    config: ModelConfig,
    precision: Precision,
    embedding: Parameter,
    pub(crate) blocks: Vec<Block>,
    norm: RmsNorm,
    /// `None` where the embedding is used.
    lm_head: Option<Parameter>,
    rotary: Rotary,
    pub(crate) attached: Option<Attached>,
}

impl Model {
    /// Reads a model folder, and the adapters that `tuning` names.
    pub fn load(folder: &Path, options: &LoadOptions) -> Result<Self, ModelError> {
        let (config, raw) = registry::read_with_raw(folder)?;
        let loader = Loader::open(folder, options)?;
        let embed_shape = [config.vocab_size, config.hidden_size];
        let missing_head = !config.is_tied;
        loader.check(&config)?;
        let blocks = (0..config.num_layers)
            .map(|index| Block::load(&loader, &config, index))
            .collect::<Result<_, _>>()?;
        let mut model = Self {
            folder: folder.to_owned(),
            embedding: loader.parameter("model.embed_tokens.weight", &embed_shape)?,
            blocks,
            norm: RmsNorm {
                weight: loader.parameter("model.norm.weight", &[config.hidden_size])?,
                eps: config.rms_norm_eps,
            },
            lm_head: missing_head
                .then(|| loader.parameter("lm_head.weight", &embed_shape))
                .transpose()?,
            rotary: Rotary::new(&config),
            precision: options.precision,
            attached: None,
            config,
            raw,
        };
        if let Tuning::Lora(lora) = &options.tuning {
            adapter::attach(&mut model, lora)?;
        }
        Ok(model)
    }

    /// Returns the model's measures.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Returns the types that the model was loaded with.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the device that the weights are on.
    pub fn device(&self) -> Device {
        self.embedding.tensor.device()
    }

    /// Returns the folder that the model was read from.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the number of blocks.
    pub fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns whether the head uses the embedding's weight.
    pub fn is_tied(&self) -> bool {
        self.lm_head.is_none()
    }

    /// Returns the units in the order of a forward.
    pub fn units(&self) -> impl Iterator<Item = Unit> + use<> {
        std::iter::once(Unit::Embed)
            .chain((0..self.blocks.len()).map(Unit::Block))
            .chain(std::iter::once(Unit::Head))
    }

    /// Returns the parameters that belong to a unit; each belongs to exactly one. A tied embedding belongs to
    /// [`Unit::Embed`] although the head uses it too: see [`Model::tied_weight`].
    pub fn parameters(&self, unit: Unit) -> Vec<Parameter> {
        match unit {
            Unit::Embed => vec![self.embedding.clone()],
            Unit::Block(index) => self.blocks[index].parameters().cloned().collect(),
            Unit::Head => std::iter::once(&self.norm.weight)
                .chain(&self.lm_head)
                .cloned()
                .collect(),
        }
    }

    /// Returns the embedding where the head uses it: the head's gradient of it is added to the embedding's own.
    pub fn tied_weight(&self) -> Option<Parameter> {
        self.is_tied().then(|| self.embedding.clone())
    }

    /// Returns all parameters, unit by unit.
    pub fn all_parameters(&self) -> Vec<Parameter> {
        self.units()
            .flat_map(|unit| self.parameters(unit))
            .collect()
    }

    /// Returns how many numbers are trained, and how many there are in all.
    pub fn num_parameters(&self) -> (usize, usize) {
        let count = |trained: bool, parameter: &Parameter| {
            if parameter.is_trainable || !trained {
                parameter.tensor.numel()
            } else {
                0
            }
        };
        let all = self.all_parameters();
        (
            all.iter().map(|p| count(true, p)).sum(),
            all.iter().map(|p| count(false, p)).sum(),
        )
    }

    /// Prepares a forward over sequences that stand one after the other: `positions` is `[tokens]`, and `segments` are
    /// the sequences' lengths.
    pub fn pass(&self, positions: &Tensor, segments: &[i64]) -> Result<Pass<'static>, ModelError> {
        let tokens: i64 = segments.iter().sum();
        if positions.size() != [tokens] || segments.iter().any(|&length| length < 1) {
            let message = format!(
                "segments {segments:?} do not fit positions of shape {:?}",
                positions.size()
            );
            return Err(ModelError::Batch(message));
        }
        let (cos, sin) = self.rotary.tables(positions, self.precision.wide())?;
        Ok(Pass::new(cos, sin, segments.to_vec()))
    }

    /// Maps token ids `[tokens]` to hidden states `[tokens, hidden]`.
    pub fn embed(&self, ids: &Tensor) -> Result<Tensor, ModelError> {
        let rows = Tensor::f_embedding(&self.embedding.tensor, ids, -1, false, false)?;
        Ok(if rows.kind() == self.precision.compute() {
            rows
        } else {
            rows.f_to_kind(self.precision.compute())?
        })
    }

    /// Runs block `index` on hidden states `[tokens, hidden]`.
    pub fn block(&self, index: usize, hidden: &Tensor, pass: &Pass) -> Result<Tensor, ModelError> {
        self.blocks[index].forward(hidden, pass)
    }

    /// Applies the final norm to the hidden states of the rows whose logits are wanted.
    pub fn final_norm(&self, hidden: &Tensor) -> Result<Tensor, ModelError> {
        self.norm.forward(hidden)
    }

    /// Maps normed rows `[rows, hidden]` to logits `[rows, vocabulary]`, in the computing type.
    pub fn logits(&self, normed: &Tensor) -> Result<Tensor, ModelError> {
        let weight = self.lm_head.as_ref().unwrap_or(&self.embedding);
        Ok(normed.f_linear(&weight.cast_like(normed)?, None::<&Tensor>)?)
    }

    /// Runs the head: final norm, then logits.
    pub fn head(&self, hidden: &Tensor) -> Result<Tensor, ModelError> {
        self.logits(&self.final_norm(hidden)?)
    }

    /// Runs everything on ids `[tokens]`: logits for all tokens. Training goes unit by unit instead.
    pub fn forward(&self, ids: &Tensor, pass: &Pass) -> Result<Tensor, ModelError> {
        let mut hidden = self.embed(ids)?;
        for block in &self.blocks {
            hidden = block.forward(&hidden, pass)?;
        }
        self.head(&hidden)
    }

    /// Adds the adapter's products to the weights and drops the adapter; nothing is trainable then.
    pub fn merge_adapter(&mut self) -> Result<(), ModelError> {
        for linear in self.blocks.iter_mut().flat_map(Block::linears_mut) {
            linear.merge()?;
        }
        self.attached = None;
        Ok(())
    }

    pub(crate) fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.blocks.iter().flat_map(Block::linears)
    }

    pub(crate) fn linears_mut(&mut self) -> impl Iterator<Item = &mut Linear> {
        self.blocks.iter_mut().flat_map(Block::linears_mut)
    }

    pub(crate) fn trainable_kind(&self) -> Kind {
        self.precision.trainable()
    }
}
