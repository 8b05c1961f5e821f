# SPDX-License-Identifier: Apache-2.0
"""The run directory: written in training, read anywhere. Only `layout` knows its paths."""
