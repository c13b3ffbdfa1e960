// What norm_kernels.cpp gives to kernels.cpp.
#pragma once
#include "kernels.h"

void rms_norm_f32(const float* x, const float* w, float eps, int64_t rows, int64_t n, float* y, float* rstd);
void rms_norm_backward_f32(const float* dy, const float* x, const float* w, const float* rstd, int64_t rows, int64_t n, float* dx);
void rms_norm_weight_f32(const float* dy, const float* x, const float* rstd, int64_t rows, int64_t n, float* dw);
void rms_norm_bf16(const bf16* x, const float* w, float eps, int64_t rows, int64_t n, bf16* y, float* rstd);
void rms_norm_backward_bf16(const bf16* dy, const bf16* x, const float* w, const float* rstd, int64_t rows, int64_t n, bf16* dx);
void rms_norm_weight_bf16(const bf16* dy, const bf16* x, const float* rstd, int64_t rows, int64_t n, float* dw);
void rms_norm_f64(const double* x, const double* w, double eps, int64_t rows, int64_t n, double* y, double* rstd);
void rms_norm_backward_f64(const double* dy, const double* x, const double* w, const double* rstd, int64_t rows, int64_t n, double* dx);
void rms_norm_weight_f64(const double* dy, const double* x, const double* rstd, int64_t rows, int64_t n, double* dw);
