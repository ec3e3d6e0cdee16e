"""Methods and links as code for your trainer: one torch function in the form that the trainer expects.

`exports` has `export_loss` and `export_link`, which fill the templates beside it. `base.py.jinja` is a loss,
TRAINER.py.jinja what a trainer's hook gives and wants, `weights.py.jinja` the formulas; `exports.toml` says what each
hook is given. `checking` calls written code as the trainer would, and compares it with the method that it came from.
"""
