"""What ATen's schemas say that a reader without torch needs: how many tensors an operator returns.

Operators of others' libraries, quantized ones and those that write into `out` are left out; all that is not named here
returns one tensor.
"""

from __future__ import annotations

_SEVERAL = {
    2: (
        "_aminmax.default _aminmax.dim _amp_update_scale.default _ctc_loss.Tensor _ctc_loss.default "
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default _fused_dropout.default "
        "_fused_moving_avg_obs_fq_helper.default _fused_rms_norm.default _fused_rms_norm_backward.default "
        "_grid_sampler_2d_cpu_fallback_backward.default _linalg_eigh.default "
        "_native_multi_head_attention.default _nested_compute_contiguous_strides_offsets.default "
        "_pack_padded_sequence.default _pad_packed_sequence.default _prelu_kernel_backward.default "
        "_rowwise_prune.default _scaled_dot_product_attention_math.default "
        "_scaled_dot_product_flash_attention_for_cpu.default _sobol_engine_draw.default "
        "_sparse_mm_reduce_impl.default _sparse_mm_reduce_impl_backward.default "
        "_sparse_semi_structured_apply.default _thnn_fused_gru_cell.default "
        "_to_sparse_semi_structured.default _unique.default _unpack_dual.default "
        "_weight_norm_differentiable_backward.default _weight_norm_interface.default "
        "_weight_norm_interface_backward.default adaptive_max_pool1d.default adaptive_max_pool2d.default "
        "adaptive_max_pool3d.default aminmax.default batch_norm_gather_stats.default "
        "batch_norm_gather_stats_with_counts.default batch_norm_stats.default batch_norm_update_stats.default "
        "choose_qparams_optimized.default cummax.default cummin.default "
        "fake_quantize_per_channel_affine_cachemask.default fake_quantize_per_tensor_affine_cachemask.default "
        "fractional_max_pool2d.default fractional_max_pool3d.default frexp.Tensor geqrf.default "
        "grid_sampler_2d_backward.default grid_sampler_3d_backward.default gru.data gru.input "
        "histogram.bin_ct histogram.bins_tensor kthvalue.default linalg_cholesky_ex.default "
        "linalg_eig.default linalg_eigh.default linalg_inv_ex.default linalg_ldl_factor.default "
        "linalg_lu_factor.default linalg_qr.default linalg_slogdet.default linalg_solve_ex.default "
        "log_sigmoid_forward.default lstm_cell.default matmul_backward.default max.dim "
        "max_pool1d_with_indices.default max_pool2d_with_indices.default max_pool3d_with_indices.default "
        "median.dim min.dim mode.default multilabel_margin_loss_forward.default nanmedian.dim "
        "native_dropout.default nll_loss2d_forward.default nll_loss_forward.default qr.default rnn_relu.data "
        "rnn_relu.input rnn_tanh.data rnn_tanh.input rrelu_with_noise_functional.default slogdet.default "
        "sort.default sort.stable std_mean.correction std_mean.default std_mean.dim topk.default "
        "triangular_solve.default var_mean.correction var_mean.default var_mean.dim "
    ),
    3: (
        "_batch_norm_impl_index_backward.default _convolution_double_backward.default "
        "_fake_quantize_learnable_per_channel_affine_backward.default "
        "_fake_quantize_learnable_per_tensor_affine_backward.default _flash_attention_backward.default "
        "_linalg_det.default _linalg_svd.default _lu_with_info.default _native_batch_norm_legit.default "
        "_native_batch_norm_legit.no_stats _native_batch_norm_legit_no_training.default "
        "_scaled_dot_product_flash_attention_backward.default "
        "_scaled_dot_product_flash_attention_for_cpu_backward.default _slow_conv2d_backward.output_mask "
        "_thnn_fused_lstm_cell.default _thnn_fused_lstm_cell_backward_impl.default "
        "_transform_bias_rescale_qkv.default _unique2.default batch_norm_backward.default "
        "conv_tbc_backward.default convolution_backward.default convolution_backward_overrideable.default "
        "linalg_ldl_factor_ex.default linalg_lu.default linalg_lu_factor_ex.default linalg_svd.default "
        "linear_backward.default lstm.data lstm.input lu_unpack.default native_batch_norm.default "
        "native_batch_norm_backward.default native_group_norm.default native_group_norm_backward.default "
        "native_layer_norm.default native_layer_norm_backward.default svd.default unique_consecutive.default "
        "unique_dim.default unique_dim_consecutive.default "
    ),
    4: (
        "_batch_norm_no_update.default _batch_norm_with_update.default _efficient_attention_backward.default "
        "_embedding_bag.default _embedding_bag_forward_only.default _linalg_slogdet.default "
        "_linalg_solve_ex.default _scaled_dot_product_efficient_attention.default "
        "_scaled_dot_product_efficient_attention_backward.default "
        "_scaled_dot_product_fused_attention_overrideable_backward.default batch_norm_backward_reduce.default "
        "embedding_bag.default embedding_bag.padding_idx linalg_lstsq.default "
    ),
    5: (
        "_flash_attention_forward.default _native_batch_norm_legit_functional.default "
        "_sparse_semi_structured_tile.default _thnn_differentiable_gru_cell_backward.default "
        "_thnn_differentiable_lstm_cell_backward.default _thnn_fused_gru_cell_backward.default "
        "_thnn_fused_lstm_cell_backward.default "
    ),
    6: ("_batch_norm_with_update_functional.default _fused_moving_avg_obs_fq_helper_functional.default "),
}
SEVERAL = {name: count for count, names in _SEVERAL.items() for name in names.split()}
"""Tensors that an operator returns, by "name.overload", where they are more than one."""

_LISTS = (
    "_histogramdd_bin_edges.default _to_cpu.default atleast_1d.Sequence atleast_2d.Sequence "
    "atleast_3d.Sequence broadcast_tensors.default chunk.default dequantize.list dequantize.tensors "
    "dsplit.array dsplit.int gradient.array gradient.scalararray gradient.scalarint gradient.scalarrayarray "
    "gradient.scalarrayint gradient.tensorarray gradient.tensorarrayint histogramdd.TensorList_bins "
    "histogramdd.default histogramdd.int_bins hsplit.array hsplit.int keys.Tensor meshgrid.default "
    "meshgrid.indexing nonzero_numpy.default quantize_per_tensor.tensors sorted.Tensor split.Tensor "
    "split.default split.sizes split_copy.Tensor split_with_sizes.default split_with_sizes_copy.default "
    "tensor_split.indices tensor_split.sections tensor_split.tensor_indices_or_sections unbind.int "
    "unbind_copy.int unflatten_dense_tensors.default unsafe_chunk.default unsafe_split.Tensor "
    "unsafe_split_with_sizes.default vsplit.array vsplit.int where.default "
)
LISTS = frozenset(_LISTS.split())
"""Operators that return a list, as long as their arguments say."""

_RANDOM = (
    "_fused_dropout alpha_dropout bernoulli bernoulli_ cauchy_ dropout exponential_ geometric_ log_normal_ "
    "multinomial native_dropout normal normal_ poisson rand rand_like randint randint_like randn randn_like "
    "random_ randperm uniform_ "
)
RANDOM = frozenset(_RANDOM.split())
"""Operators whose values are drawn: there is no one right answer."""

_UNDEFINED = (
    "_empty_affine_quantized _empty_per_channel_affine_quantized empty empty_like empty_permuted empty_quantized "
    "empty_strided new_empty new_empty_strided resize resize_ resize_as_ "
)
UNDEFINED = frozenset(_UNDEFINED.split())
"""Operators that return memory which nobody has written."""
