// Every kernel of module.cu, for what runs them by name: EACH(depthwise_forward_f32) and so on.
#pragma once

#define EACH_OF_BOTH_KINDS(EACH, name) EACH(name##_f32) EACH(name##_f16)
#define EACH_KERNEL(EACH)                                                                                              \
    EACH_OF_BOTH_KINDS(EACH, depthwise_forward)                                                                        \
    EACH_OF_BOTH_KINDS(EACH, depthwise_weight_gradient)                                                                \
    EACH_OF_BOTH_KINDS(EACH, depthwise_input_gradient_stride1)                                                         \
    EACH_OF_BOTH_KINDS(EACH, depthwise_input_gradient_stride2)                                                         \
    EACH_OF_BOTH_KINDS(EACH, im2col)                                                                                   \
    EACH_OF_BOTH_KINDS(EACH, col2im)                                                                                   \
    EACH_OF_BOTH_KINDS(EACH, moments)                                                                                  \
    EACH_OF_BOTH_KINDS(EACH, norm_sums)                                                                                \
    EACH_OF_BOTH_KINDS(EACH, norm_input_gradient)                                                                      \
    EACH_OF_BOTH_KINDS(EACH, normalise)                                                                                \
    EACH_OF_BOTH_KINDS(EACH, normalise_pool)                                                                           \
    EACH_OF_BOTH_KINDS(EACH, activation_gradient)                                                                      \
    EACH_OF_BOTH_KINDS(EACH, pool_gradient)                                                                            \
    EACH_OF_BOTH_KINDS(EACH, mean_pool)                                                                                \
    EACH_OF_BOTH_KINDS(EACH, mean_pool_gradient)                                                                       \
    EACH_OF_BOTH_KINDS(EACH, centre_pool)                                                                              \
    EACH_OF_BOTH_KINDS(EACH, centre_pool_gradient)                                                                     \
    EACH_OF_BOTH_KINDS(EACH, add)                                                                                      \
    EACH_OF_BOTH_KINDS(EACH, pack_to_f32)                                                                              \
    EACH_OF_BOTH_KINDS(EACH, pack_to_f16)                                                                              \
    EACH_OF_BOTH_KINDS(EACH, pack_to_bf16)                                                                             \
    EACH_OF_BOTH_KINDS(EACH, unpack_from_f32)                                                                          \
    EACH_OF_BOTH_KINDS(EACH, unpack_from_f16)                                                                          \
    EACH_OF_BOTH_KINDS(EACH, unpack_from_bf16)                                                                         \
    EACH(sum_groups)                                                                                                   \
    EACH(merge_moments)
