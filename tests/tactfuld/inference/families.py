"""The chat templates of the model families that we promise to speak, as their GGUF files hold them.

The templates are the ones that the families publish, cut to what a conversation without tools uses.
"""

from tests.tactfuld.inference.tiny_model import Family

SMOLLM2 = Family(
    template=(
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
        "Face<|im_end|>\\n' }}{% endif %}"
        "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    ),
    controls=("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    pre="smollm",
    bos="<|im_start|>",
)
