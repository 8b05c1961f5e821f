# SPDX-License-Identifier: Apache-2.0
"""Questions to one run, live or closed. Runs anywhere but in training."""
