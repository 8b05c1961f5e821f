# SPDX-License-Identifier: Apache-2.0
"""PyTorch: capture, replay and autostart. Runs in training; imported only once torch is.

Holds all that firstfault knows of PyTorch. To add a framework, copy this folder.
"""
