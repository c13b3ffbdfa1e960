//! Learning-rate schedules: a factor between 0 and 1 for each optimizer step.
//!
//! The formulas are those of Transformers, so that a curve can be laid over a
//! peer's. Steps count from 0, which makes the first step of a warm-up run at
//! rate 0. This module knows nothing of optimizers or parameter groups.

use std::f64::consts::PI;

/// The shape of the curve after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Stays at the full rate and ignores the warm-up.
    Constant,
    /// Stays at the full rate after the warm-up.
    ConstantWithWarmup,
    /// Falls in a line to 0 at the last step.
    Linear,
    /// Falls along half a cosine to 0.
    Cosine,
    /// Falls along half a cosine, as often as `cycles` says.
    CosineWithRestarts {
        /// Number of falls.
        cycles: f64,
    },
    /// Falls along half a cosine to `min` of the full rate.
    CosineWithMin {
        /// Lowest factor.
        min: f64,
    },
    /// Falls along a polynomial to `end`, a factor of the full rate.
    Polynomial {
        /// Factor at the end.
        end: f64,
        /// Exponent; 1 is a line.
        power: f64,
    },
    /// Falls with the inverse square root of the step.
    InverseSqrt,
    /// Stays for a third of the steps after the warm-up, then falls along half a cosine.
    WarmupStableDecay,
}

/// A learning-rate schedule over a run of known length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    shape: Shape,
    num_warmup_steps: u64,
    num_steps: u64,
}

impl Schedule {
    /// Makes a schedule of `num_steps` steps of which the first `num_warmup_steps` warm up.
    pub fn new(shape: Shape, num_warmup_steps: u64, num_steps: u64) -> Self {
        Self {
            shape,
            num_warmup_steps,
            num_steps,
        }
    }

    /// Returns the factor of the rate at `step`, counted from 0.
    pub fn factor(&self, step: u64) -> f64 {
        if self.shape == Shape::Constant {
            return 1.0;
        }
        if step < self.num_warmup_steps {
            return step as f64 / self.num_warmup_steps.max(1) as f64;
        }
        let s = step as f64;
        let warmup = self.num_warmup_steps as f64;
        let total = self.num_steps as f64;
        let progress = (s - warmup) / (total - warmup).max(1.0);
        match self.shape {
            Shape::Constant | Shape::ConstantWithWarmup => 1.0,
            Shape::Linear => ((total - s) / (total - warmup).max(1.0)).max(0.0),
            Shape::Cosine => half_cosine(progress),
            Shape::CosineWithMin { min } => half_cosine(progress).mul_add(1.0 - min, min).max(0.0),
            Shape::CosineWithRestarts { cycles } => {
                if progress >= 1.0 {
                    0.0
                } else {
                    half_cosine((cycles * progress) % 1.0)
                }
            }
            Shape::Polynomial { end, power } => {
                if s > total {
                    end
                } else {
                    (1.0 - end) * (1.0 - progress).powf(power) + end
                }
            }
            Shape::InverseSqrt => {
                let timescale = if self.num_warmup_steps == 0 {
                    10_000.0
                } else {
                    warmup
                };
                let shift = timescale - warmup;
                1.0 / ((s + shift) / timescale).sqrt()
            }
            Shape::WarmupStableDecay => {
                let num_stable = (self.num_steps.saturating_sub(self.num_warmup_steps)) / 3;
                let num_decay = self
                    .num_steps
                    .saturating_sub(self.num_warmup_steps + num_stable);
                let decay_from = self.num_warmup_steps + num_stable;
                if step < decay_from {
                    1.0
                } else if step < decay_from + num_decay {
                    half_cosine((step - decay_from) as f64 / num_decay.max(1) as f64)
                } else {
                    0.0
                }
            }
        }
    }
}

/// Falls from 1 at 0 to 0 at 1.
fn half_cosine(progress: f64) -> f64 {
    (0.5 * (1.0 + (PI * progress).cos())).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-7
    }

    #[test]
    fn cosine_has_the_reference_values() {
        let schedule = Schedule::new(Shape::Cosine, 10, 100);
        for (step, expected) in [
            (0, 0.0),
            (1, 0.1),
            (5, 0.5),
            (10, 1.0),
            (55, 0.5),
            (99, 0.000_305),
            (100, 0.0),
        ] {
            assert!(
                close(schedule.factor(step), expected),
                "step {step}: {}",
                schedule.factor(step)
            );
        }
    }

    #[test]
    fn linear_reaches_zero_at_the_end() {
        let schedule = Schedule::new(Shape::Linear, 0, 10);
        assert!(close(schedule.factor(0), 1.0));
        assert!(close(schedule.factor(5), 0.5));
        assert!(close(schedule.factor(10), 0.0));
        assert!(close(Schedule::new(Shape::Linear, 2, 10).factor(6), 0.5));
    }

    #[test]
    fn constant_ignores_the_warm_up() {
        assert!(close(Schedule::new(Shape::Constant, 5, 10).factor(0), 1.0));
        let warm = Schedule::new(Shape::ConstantWithWarmup, 4, 10);
        assert!(close(warm.factor(1), 0.25) && close(warm.factor(9), 1.0));
    }

    #[test]
    fn the_other_shapes_follow_their_formulas() {
        let min = Schedule::new(Shape::CosineWithMin { min: 0.1 }, 0, 10);
        assert!(
            close(min.factor(0), 1.0) && close(min.factor(5), 0.55) && close(min.factor(10), 0.1)
        );
        let restarts = Schedule::new(Shape::CosineWithRestarts { cycles: 2.0 }, 0, 8);
        assert!(
            close(restarts.factor(4), 1.0)
                && close(restarts.factor(2), 0.5)
                && close(restarts.factor(8), 0.0)
        );
        let polynomial = Schedule::new(
            Shape::Polynomial {
                end: 0.01,
                power: 1.0,
            },
            0,
            10,
        );
        assert!(close(polynomial.factor(5), 0.505));
        let sqrt = Schedule::new(Shape::InverseSqrt, 4, 100);
        assert!(close(sqrt.factor(16), 0.5) && close(sqrt.factor(4), 1.0));
        let wsd = Schedule::new(Shape::WarmupStableDecay, 1, 10);
        assert!(
            close(wsd.factor(3), 1.0)
                && close(wsd.factor(4), 1.0)
                && close(wsd.factor(7), 0.5)
                && close(wsd.factor(10), 0.0)
        );
    }
}
