//! The types that weights are kept in and that a model computes in.

use tch::Kind;

/// How a model's numbers are kept and multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Everything in float32, whatever the files hold.
    F32,
    /// Computes in bfloat16; frozen weights are kept so, trainable ones in float32 and cast where they are used.
    Bf16,
    /// Everything in bfloat16, trainable weights included.
    PureBf16,
    /// Everything in float64; for equivalence tests.
    F64,
}

impl Precision {
    /// Returns the type of activations and matrix products.
    pub fn compute(self) -> Kind {
        match self {
            Self::F32 => Kind::Float,
            Self::Bf16 | Self::PureBf16 => Kind::BFloat16,
            Self::F64 => Kind::Double,
        }
    }

    /// Returns the type that trainable weights are kept in.
    pub fn trainable(self) -> Kind {
        match self {
            Self::Bf16 => Kind::Float,
            _ => self.compute(),
        }
    }

    /// Returns the type that frozen weights are kept in.
    pub fn frozen(self) -> Kind {
        self.compute()
    }

    /// Returns the type of sums inside norms, rotations and losses: at least float32.
    pub fn wide(self) -> Kind {
        if self == Self::F64 {
            Kind::Double
        } else {
            Kind::Float
        }
    }
}
